pragma solidity 0.4.26;
pragma experimental ABIEncoderV2;

import "./MicroChainBase.sol";

/// What this contract asks of an ERC-20 token.
contract ExchangedToken {
    function allowance(address owner, address spender) public view returns (uint);
    function transferFrom(address from, address to, uint value) public returns (bool);
    function transfer(address to, uint value) public returns (bool);
    function totalSupply() public view returns (uint);
    function decimals() public view returns (uint);
}

/// A MicroChain whose token is exchanged with an ERC-20 token of the base chain (AST).
///
/// Keeps the selectors, arguments, results and rules of the public network's contract of this kind;
/// the rest is in `MicroChainBase.sol`, and so is what differs.
contract TokenChainBase is MicroChainBase {
    address public ERCAddr;
    /// MicroChain tokens for one ERC-20 token.
    uint public ERCRate;
    /// 18 less the decimals of the ERC-20 token.
    uint public ERCDecimals;

    constructor(
        address pool,
        address vnodes,
        address token,
        uint rate,
        uint min,
        uint max,
        uint thousandth,
        uint round
    )
        public
        MicroChainState(pool, vnodes, min, max, thousandth, round)
    {
        ERCAddr = token;
        ERCRate = rate;
        uint places = ExchangedToken(token).decimals();
        require(places <= 18);
        ERCDecimals = 18 - places;
        uint supply = ExchangedToken(token).totalSupply();
        BALANCE = supply * unit();
        require(BALANCE / unit() == supply);
        per_redeemdata_num = 110;
    }

    /// Units of the MicroChain's token for a unit of the ERC-20 token.
    function unit() private view returns (uint) {
        return ERCRate * 10 ** ERCDecimals;
    }

    /// Takes `_value` units of the ERC-20 token, which the sender has approved, for tokens. False if
    /// they are not approved.
    function buyMintToken(uint _value) public returns (bool) {
        ExchangedToken token = ExchangedToken(ERCAddr);
        if (_value > token.allowance(msg.sender, address(this))) {
            return false;
        }
        if (!token.transferFrom(msg.sender, address(this), _value)) {
            return false;
        }
        recordDeposit(_value * unit());
        return true;
    }

    function payRedemption(address user, uint amount) internal returns (bool) {
        return ExchangedToken(ERCAddr).transfer(user, amount / unit());
    }

    /// Users' deposits are no coins.
    function owedToUsers() internal view returns (uint) {
        return 0;
    }
}
