pragma solidity 0.4.26;
pragma experimental ABIEncoderV2;

import "./MicroChainBase.sol";

/// A MicroChain whose token is exchanged with the base chain's coin (ASM).
///
/// Keeps the selectors, arguments, results and rules of the public network's contract of this kind;
/// the rest is in `MicroChainBase.sol`, and so is what differs.
contract ChainBase is MicroChainBase {
    /// Tokens for one coin.
    uint public priceOneGInMOAC;
    /// Tokens that users have bought and not given back.
    uint public totalExchange;

    constructor(
        address pool,
        address vnodes,
        uint min,
        uint max,
        uint thousandth,
        uint round,
        uint tokenSupply,
        uint exchangeRate
    )
        public
        MicroChainState(pool, vnodes, min, max, thousandth, round)
    {
        BALANCE = tokenSupply * COIN;
        priceOneGInMOAC = exchangeRate;
        per_redeemdata_num = 130;
    }

    /// Buys tokens for the value. What the supply cannot serve is paid back at once.
    function buyMintToken() public payable returns (bool) {
        uint tokens = msg.value * priceOneGInMOAC;
        uint left = BALANCE - totalExchange;
        uint excess = 0;
        if (tokens > left) {
            excess = (tokens - left) / priceOneGInMOAC;
            tokens = left;
        }
        totalExchange += tokens;
        recordDeposit(tokens);
        if (excess > 0) {
            msg.sender.transfer(excess);
        }
        return true;
    }

    function payRedemption(address user, uint amount) internal returns (bool) {
        totalExchange -= amount;
        user.transfer(amount / priceOneGInMOAC);
        return true;
    }

    function owedToUsers() internal view returns (uint) {
        return totalExchange / priceOneGInMOAC;
    }
}
