// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.13;

// The parts of Foundry's library that the tests of the sample project use. No package registry has the library.
contract Test {
    bool public IS_TEST = true;

    function assertEq(uint256 got, uint256 expected) internal pure {
        require(got == expected, "the numbers differ");
    }
}
