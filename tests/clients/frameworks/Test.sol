// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.13;

// What the tests of the sample project use of Foundry's library, which no package registry has.
contract Test {
    bool public IS_TEST = true;

    function assertEq(uint256 got, uint256 expected) internal pure {
        require(got == expected, "the numbers differ");
    }
}
