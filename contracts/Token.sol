pragma solidity 0.4.26;

/// A small ERC-20 token. On the base chain it is what a token chain base exchanges; on a MicroChain
/// it is a Dapp.
contract Token {
    string public name;
    string public symbol;
    uint public decimals;
    uint public totalSupply;
    mapping(address => uint) public balanceOf;
    mapping(address => mapping(address => uint)) public allowance;

    event Transfer(address indexed from, address indexed to, uint value);
    event Approval(address indexed owner, address indexed spender, uint value);

    /// `supply` is in units; the creator gets all of it.
    constructor(string tokenName, string tokenSymbol, uint places, uint supply) public {
        name = tokenName;
        symbol = tokenSymbol;
        decimals = places;
        totalSupply = supply;
        balanceOf[msg.sender] = supply;
        emit Transfer(address(0), msg.sender, supply);
    }

    function transfer(address to, uint value) public returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function approve(address spender, uint value) public returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transferFrom(address from, address to, uint value) public returns (bool) {
        require(value <= allowance[from][msg.sender]);
        allowance[from][msg.sender] -= value;
        move(from, to, value);
        return true;
    }

    function move(address from, address to, uint value) private {
        require(to != address(0) && value <= balanceOf[from]);
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}
