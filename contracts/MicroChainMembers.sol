pragma solidity 0.4.26;
pragma experimental ABIEncoderV2;

import "./MicroChainState.sol";

/// Who is a member of a MicroChain: joining, watching, backing up, leaving, and what a flush and the
/// end change.
contract MicroChainMembers is MicroChainState {
    /// The owner lets SCSs join.
    function registerOpen() public onlyOwner whileOpen {
        registerFlag = MEMBERS;
        notify(REGISTER_OPEN);
    }

    /// An SCS joins. The pool says what the signature covers. False if it cannot join now.
    function registerAsSCS(address beneficiary, uint8 v, bytes32 r, bytes32 s) public whileOpen returns (bool) {
        require(getSCSRole(msg.sender) == ROLE_SELECTABLE);
        if (registerFlag != MEMBERS || nodeCount > maxMember) {
            return false;
        }
        if (!scsPool().approveBond(msg.sender, penaltyBond, v, r, s)) {
            return false;
        }
        nodeList.push(msg.sender);
        nodeCount++;
        nodePerformance[msg.sender] = NODE_INIT_PERFORMANCE;
        setBeneficiary(beneficiary);
        return true;
    }

    function setBeneficiary(address beneficiary) private {
        scsBeneficiary[msg.sender] = beneficiary == address(0) ? msg.sender : beneficiary;
    }

    /// The owner starts the MicroChain. With too few members all are released, and false is returned.
    function registerClose() public onlyOwner whileOpen returns (bool) {
        registerFlag = NOBODY;
        if (nodeCount < minMember) {
            releaseMembers();
            return false;
        }
        lastFlushBlk = block.number;
        curFlushIndex = 0;
        scsPool().setSubchainActiveBlock();
        notify(REGISTER_CLOSE);
        return true;
    }

    /// The places of the released members stay in the list, as zero addresses.
    function releaseMembers() private {
        for (uint at = nodeCount; at > 0; at--) {
            scsPool().releaseFromSubchain(nodeList[at - 1], penaltyBond);
            delete nodeList[at - 1];
        }
        nodeCount = 0;
    }

    /// The owner lets SCSs join as backups. About `nodeToAdd` SCSs of the pool become selectable.
    function registerAdd(uint nodeToAdd) public onlyOwner whileOpen {
        require(joinCntNow + nodeCount < maxMember);
        registerFlag = BACKUPS;
        joinCntMax = maxMember - joinCntNow - nodeCount;
        joinCntNow = nodesToJoin.length;
        selTarget = scsPool().getSelectionTargetByCount(nodeToAdd);
        notify(REGISTER_ADD);
    }

    /// An SCS joins as a backup. It becomes a member at a flush after `BackupUpToDate`.
    function registerAsBackup(address beneficiary, uint8 v, bytes32 r, bytes32 s) public whileOpen returns (bool) {
        require(getSCSRole(msg.sender) == ROLE_SELECTABLE);
        if (registerFlag != BACKUPS || joinCntNow >= joinCntMax) {
            return false;
        }
        if (!scsPool().approveBond(msg.sender, penaltyBond, v, r, s)) {
            return false;
        }
        nodesToJoin.push(msg.sender);
        joinCntNow++;
        nodePerformance[msg.sender] = 0;
        setBeneficiary(beneficiary);
        notify(NEW_BACKUP);
        return true;
    }

    /// A backup says that it has all blocks. `index` is its place in `nodesToJoin`.
    function BackupUpToDate(uint index) public {
        require(registerFlag == BACKUPS);
        require(nodesToJoin[index] == msg.sender);
        nodePerformance[msg.sender] = NODE_INIT_PERFORMANCE;
    }

    /// Anyone pays for `monitor`, which then follows the MicroChain without taking part.
    function registerAsMonitor(address monitor, string link) public payable whileOpen {
        require(msg.value >= MONITOR_MIN_FEE);
        require(monitor != address(0) && nodesWatching[monitor] == 0);
        uint role = getSCSRole(monitor);
        require(role == ROLE_SELECTABLE || role == ROLE_NONE);
        nodesWatching[monitor] = msg.value;
        totalBond += msg.value;
        monitors.push(Monitor(monitor, msg.value, link));
        notify(NEW_MONITOR);
    }

    /// Anyone removes a monitor, which gets its payment back.
    function removeMonitorInfo(address monitor) public {
        for (uint at = monitors.length; at > 0; at--) {
            if (monitors[at - 1].from != monitor) {
                continue;
            }
            uint bond = monitors[at - 1].bond;
            uint last = monitors.length - 1;
            if (at - 1 != last) {
                monitors[at - 1] = monitors[last];
            }
            monitors.length = last;
            delete nodesWatching[monitor];
            totalBond -= bond;
            monitor.transfer(bond);
        }
    }

    /// Whether the sender may speak for the member at `index`: 1 as the SCS, 2 as its beneficiary.
    function speaksFor(uint senderType, uint index) private view returns (bool) {
        address scs = nodeList[index];
        return (senderType == 1 && scs == msg.sender) || (senderType == 2 && scsBeneficiary[scs] == msg.sender);
    }

    /// A member leaves at the next flush.
    function requestRelease(uint senderType, uint index) public returns (bool) {
        if (!speaksFor(senderType, index) || nodeToReleaseCount >= nodesToRelease.length) {
            return false;
        }
        for (uint at = 0; at < nodeToReleaseCount; at++) {
            if (nodesToRelease[at] == index) {
                return false;
            }
        }
        nodesToRelease[nodeToReleaseCount] = index;
        nodeToReleaseCount++;
        return true;
    }

    /// A member leaves at once, if no member has flushed in its turn.
    function requestReleaseImmediate(uint senderType, uint index) public returns (bool) {
        if (!speaksFor(senderType, index) || getFlushStatus()) {
            return false;
        }
        scsPool().releaseFromSubchain(nodeList[index], penaltyBond);
        dropMember(index);
        notify(RELEASE);
        return true;
    }

    /// The last member takes the place of the one that goes.
    function dropMember(uint index) private {
        nodeCount--;
        nodeList[index] = nodeList[nodeCount];
        delete nodeList[nodeCount];
        nodeList.length--;
    }

    // ---- At a flush ----

    /// Bad members lose all performance. Members without any lose their bond and will be dropped, a
    /// few at a time. Voters regain performance.
    function judgeMembers(Proposal storage proposal) internal {
        uint at;
        for (at = 0; at < proposal.badActors.length; at++) {
            nodePerformance[nodeList[proposal.badActors[at]]] = 0;
        }
        for (at = 0; at < nodeCount && nodesToDispel.length < MAX_DELETE_NUM; at++) {
            if (nodePerformance[nodeList[at]] == 0) {
                nodesToDispel.push(at);
                // A member that somebody has freed from a quiet MicroChain has no bond here.
                if (scsPool().forfeitBond(nodeList[at], penaltyBond)) {
                    totalOperation += penaltyBond;
                }
            }
        }
        for (at = 0; at < proposal.votecount; at++) {
            address voter = nodeList[proposal.voters[at]];
            if (nodePerformance[voter] < NODE_INIT_PERFORMANCE) {
                nodePerformance[voter]++;
            }
        }
    }

    /// The places are in rising order, so from the last one on they stay right.
    function dropDispelled() internal {
        for (uint at = nodesToDispel.length; at > 0; at--) {
            dropMember(nodesToDispel[at - 1]);
        }
        nodesToDispel.length = 0;
    }

    function dropReleased() internal {
        bool[] memory leaves = new bool[](nodeCount);
        uint at;
        for (at = 0; at < nodeToReleaseCount; at++) {
            uint index = nodesToRelease[at];
            if (index < nodeCount && !leaves[index]) {
                leaves[index] = true;
                scsPool().releaseFromSubchain(nodeList[index], penaltyBond);
            }
        }
        nodeToReleaseCount = 0;
        for (at = leaves.length; at > 0; at--) {
            if (leaves[at - 1]) {
                dropMember(at - 1);
            }
        }
    }

    /// Backups that have said that they are up to date become members, the last one first.
    function joinBackups() internal {
        for (uint at = joinCntNow; at > 0; at--) {
            address backup = nodesToJoin[at - 1];
            if (nodePerformance[backup] == NODE_INIT_PERFORMANCE) {
                nodeList.push(backup);
                nodeCount++;
                nodesToJoin[at - 1] = nodesToJoin[nodesToJoin.length - 1];
                nodesToJoin.length--;
            }
        }
        joinCntNow = nodesToJoin.length;
        if (joinCntNow == 0) {
            joinCntMax = 0;
            registerFlag = NOBODY;
        }
    }

    /// At the end all are released.
    function shut() internal {
        subchainstatus = CLOSED;
        registerFlag = NOBODY;
        releaseMembers();
        for (uint at = joinCntNow; at > 0; at--) {
            scsPool().releaseFromSubchain(nodesToJoin[at - 1], penaltyBond);
            delete nodesToJoin[at - 1];
            nodesToJoin.length--;
        }
        joinCntNow = 0;
        joinCntMax = 0;
    }
}
