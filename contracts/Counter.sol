pragma solidity 0.4.26;

/// A Dapp that counts: who counted how often, and how often all did.
contract Counter {
    uint public total;
    mapping(address => uint) public countOf;

    event Counted(address indexed by, uint total);

    /// Adds `step` and returns the new total. A step of 0 is refused.
    function count(uint step) public returns (uint) {
        require(step > 0);
        total += step;
        countOf[msg.sender] += step;
        emit Counted(msg.sender, total);
        return total;
    }
}
