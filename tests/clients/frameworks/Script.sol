// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.13;

interface Vm {
    function startBroadcast() external;
    function stopBroadcast() external;
}

// What the script of the sample project uses of Foundry's library, which no package registry has.
contract Script {
    bool public IS_SCRIPT = true;
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
}
