// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.13;

interface Vm {
    function startBroadcast() external;
    function stopBroadcast() external;
}

// The parts of Foundry's library that the script of the sample project uses. No package registry has the library.
contract Script {
    bool public IS_SCRIPT = true;
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
}
