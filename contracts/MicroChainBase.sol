pragma solidity 0.4.26;
pragma experimental ABIEncoderV2;

import "./MicroChainMembers.sol";

/// What both kinds of chain base have in common: members, flushes, rewards, the life cycle.
///
/// Keeps the selectors, arguments, results, notices and rules of the public network's chain base
/// contracts. Written anew from the description in docs/microchain-contracts.md, 4. What differs:
/// - `getVnodeInfo` only reads. The public one writes over its own first twelve slots when it is
///   sent as a transaction.
/// - A refund of gas is booked as it is paid. The public one pays about 5,253 gas more.
/// - A request for release that names a place that no longer exists is dropped. In the public one no
///   flush succeeds after that. A sixth request is refused with false on both kinds.
/// - `withdraw` pays no more than `totalOperation`.
/// - A hash that begins with "mcflush2" is bound: votes for it are votes for all that is proposed
///   under it, the uploaded redemptions included (docs/microchain-contracts.md, 4.4). In the public
///   one a vote binds nothing but the hash.
/// - A payout takes no more redemptions than fit into a block, and `getVnodeInfo` says how many.
/// - A payout at a gas price above `MAX_GAS_PRICE` reverts, as other calls of a flush do.
/// - A flush announces at most `max_redeemdata_num` redemptions. An upload needs an entry and a
///   pending proposal, and books no more gas than its entries take.
/// - The action is carried out once for each proposal.
/// - A bond that the pool does not pay is not booked.
/// - The pool hears of the start, and of the length of each round.
/// - A deposit that gives no tokens reverts.
/// - Redemptions count as transactions for the length of the round.
/// - The slots of the storage are the same up to `recharge_cycle`, and others after it.
///
/// Amounts of the base chain's coin are in sha, tokens of the MicroChain in units of 10^-18.
contract MicroChainBase is MicroChainMembers {
    // ---- A flush ----

    /// The member at `indexInlist` proposes, in its turn, the blocks `blocknum[0]` to `blocknum[1]`
    /// with the hash `hashlist[1]`; `hashlist[0]` is the hash of the flush before. `distAmount` has
    /// the reward of each member in sha, and `preRedeemNum` is how many redemptions will follow.
    /// A bound hash needs `hashlist[2]`, the hash of the last block.
    function createProposal(
        uint indexInlist,
        bytes32[] hashlist,
        uint[] blocknum,
        uint[] distAmount,
        uint[] badactors,
        address viaNodeAddress,
        uint preRedeemNum
    )
        public
        returns (bool)
    {
        uint gasBefore = gasleft();
        require(indexInlist < nodeCount && nodeList[indexInlist] == msg.sender);
        uint turn = getEstFlushBlock(indexInlist);
        require(block.number >= turn && block.number < turn + 2 * proposalExpiration);
        require(distAmount.length == nodeCount && badactors.length < nodeCount / 2);
        require(tx.gasprice <= MAX_GAS_PRICE && contractNeedFund < totalOperation);
        require(preRedeemNum <= max_redeemdata_num);
        expireUnfinished();
        Proposal storage proposal = proposals[hashlist[1]];
        if (
            hashlist[0] != proposalHashApprovedLast
            || !isReliable(msg.sender)
            || proposal.flag != PROPOSAL_NONE
        ) {
            return false;
        }
        proposal.hash = hashlist[1];
        proposal.start = blocknum[0];
        proposal.end = blocknum[1];
        proposal.startingBlock = turn;
        proposal.viaNodeAddress = viaNodeAddress;
        proposal.preRedeemNum = preRedeemNum;
        fill(proposal, indexInlist, distAmount, badactors);
        proposalHashInProgress = hashlist[1];
        if (isBound(hashlist[1])) {
            require(hashlist.length > 2);
            require(bytes4(hashlist[1]) != ANCHORED || bytes4(hashlist[1] << 32) == bytes4(blockhash(turn - 1)));
            bind(proposal, hashlist[2]);
        }
        notify(preRedeemNum == 0 ? CREATE_PROPOSAL : UPLOAD_REDEEM);
        bookRefund(gasBefore, NO_BOUND);
        return true;
    }

    function fill(Proposal storage proposal, uint index, uint[] distAmount, uint[] badactors) private {
        proposal.proposedBy = msg.sender;
        proposal.lastApproved = proposalHashApprovedLast;
        proposal.flag = PROPOSAL_PENDING;
        for (uint at = 0; at < nodeCount; at++) {
            proposal.distributionAmount.push(distAmount[at]);
            proposal.minerAddr.push(nodeList[at]);
        }
        proposal.badActors = badactors;
        proposal.voters.push(index);
        proposal.votecount = 1;
        proposal.redeemAgreeList.push(msg.sender);
        pendingFlushIndex = index;
    }

    function isBound(bytes32 hash) private pure returns (bool) {
        return bytes8(hash) == BOUND || bytes4(hash) == ANCHORED;
    }

    /// Begins the content of a bound proposal with all but its redemptions.
    function bind(Proposal storage proposal, bytes32 lastBlock) private {
        bytes32 lists = keccak256(
            abi.encodePacked(proposal.distributionAmount, proposal.minerAddr, proposal.badActors)
        );
        bytes32 fields = keccak256(
            abi.encodePacked(proposal.startingBlock, proposal.start, proposal.end, proposal.preRedeemNum, nodeCount)
        );
        Binding storage binding = bindings[proposal.hash];
        binding.content = keccak256(
            abi.encodePacked(
                uint(address(this)), proposal.lastApproved, uint(proposal.viaNodeAddress), lastBlock, fields, lists
            )
        );
        completeIfWhole(proposal, binding);
    }

    /// Reverts if all redemptions are there and the content is not what the hash says.
    function completeIfWhole(Proposal storage proposal, Binding storage binding) private {
        if (proposal.redeemAddr.length == proposal.preRedeemNum) {
            require(uint(proposal.hash) << 64 == uint(binding.content) << 64);
            binding.isComplete = true;
        }
    }

    /// A proposal that nobody finished expires when the next one comes.
    function expireUnfinished() private {
        Proposal storage proposal = proposals[proposalHashInProgress];
        if (proposal.flag == PROPOSAL_PENDING) {
            expire(proposal);
        }
    }

    function expire(Proposal storage proposal) private {
        proposal.flag = PROPOSAL_EXPIRED;
        if (nodePerformance[proposal.proposedBy] > 0) {
            nodePerformance[proposal.proposedBy]--;
        }
    }

    function bookRefund(uint gasBefore, uint most) private {
        uint gas = gasBefore - gasleft() + GAS_AROUND_VOTE;
        currentRefundGas[msg.sender] += (gas < most ? gas : most) * tx.gasprice;
    }

    /// The proposer uploads redemptions: who gets how many tokens' worth. Many short uploads book
    /// little more gas than a few long ones.
    function UploadRedeemData(address[] redeemAddr, uint[] redeemAmt) public returns (bool) {
        uint gasBefore = gasleft();
        Proposal storage proposal = proposals[proposalHashInProgress];
        require(msg.sender == proposal.proposedBy && proposal.flag == PROPOSAL_PENDING);
        require(redeemAddr.length > 0);
        require(proposal.redeemAddr.length + redeemAddr.length <= proposal.preRedeemNum);
        require(tx.gasprice <= MAX_GAS_PRICE);
        Binding storage binding = bindings[proposal.hash];
        bytes32 content = binding.content;
        for (uint at = 0; at < redeemAddr.length; at++) {
            proposal.redeemAddr.push(redeemAddr[at]);
            proposal.redeemAmt.push(redeemAmt[at]);
            content = keccak256(abi.encodePacked(content, uint(redeemAddr[at]), redeemAmt[at]));
        }
        if (isBound(proposal.hash)) {
            require(!binding.isComplete);
            binding.content = content;
            completeIfWhole(proposal, binding);
        }
        bool isWhole = proposal.redeemAddr.length == proposal.preRedeemNum;
        notify(isWhole ? CREATE_PROPOSAL : UPLOAD_REDEEM);
        bookRefund(gasBefore, redeemAddr.length * UPLOAD_GAS + (isWhole ? UPLOAD_BASE_GAS : 0));
        return true;
    }

    /// The member at `indexInlist` agrees, with `redeem` also to the redemptions. False if its vote
    /// does not count.
    function voteOnProposal(uint indexInlist, bytes32 hash, bool redeem) public returns (bool) {
        uint gasBefore = gasleft();
        Proposal storage proposal = proposals[hash];
        require(indexInlist < nodeCount && nodeList[indexInlist] == msg.sender);
        require(tx.gasprice <= MAX_GAS_PRICE);
        if (!isReliable(msg.sender) || proposal.flag != PROPOSAL_PENDING || isLate(proposal)) {
            return false;
        }
        for (uint at = 0; at < proposal.votecount; at++) {
            if (proposal.voters[at] == indexInlist) {
                return false;
            }
        }
        if (redeem) {
            proposal.redeemAgreeList.push(msg.sender);
        }
        proposal.voters.push(indexInlist);
        proposal.votecount++;
        bookRefund(gasBefore, NO_BOUND);
        return true;
    }

    function isLate(Proposal storage proposal) private view returns (bool) {
        return block.number > proposal.startingBlock + 2 * proposalExpiration;
    }

    /// 0 undecided, 1 agreed to by more than half of the members, 2 too late.
    function checkProposalStatus(bytes32 hash) public view returns (uint) {
        Proposal storage proposal = proposals[hash];
        if (isLate(proposal)) {
            return EXPIRED;
        }
        return proposal.votecount * 2 > nodeCount ? APPROVAL : UNDECIDED;
    }

    /// Whether the proposal has its votes. A late one expires here.
    function isApproved(bytes32 hash) private returns (bool) {
        uint status = checkProposalStatus(hash);
        if (status == EXPIRED) {
            expire(proposals[hash]);
        }
        return status == APPROVAL;
    }

    /// A member finishes a proposal that has its votes: members go and come, and without redemptions
    /// the rewards are paid. False if it cannot be finished.
    function requestProposalAction(uint indexInlist, bytes32 hash) public returns (bool) {
        uint gasBefore = gasleft();
        Proposal storage proposal = proposals[hash];
        require(indexInlist < nodeCount && nodeList[indexInlist] == msg.sender);
        require(proposal.flag == PROPOSAL_PENDING && proposal.distributeFlag == 0);
        require(tx.gasprice <= MAX_GAS_PRICE);
        require(!isBound(hash) || bindings[hash].isComplete);
        if (!isReliable(msg.sender) || proposalHashInProgress != hash || !isApproved(hash)) {
            return false;
        }
        judgeMembers(proposal);
        dropDispelled();
        dropReleased();
        bytes32 seed = sha256(abi.encodePacked(hash, block.number));
        randIndex[0] = uint8(seed[0]) / 8;
        randIndex[1] = uint8(seed[1]) / 8;
        if (registerFlag == BACKUPS) {
            joinBackups();
        }
        if (proposal.redeemAddr.length == 0) {
            finishFlush(proposal);
        } else {
            notify(APPROVE_PROPOSAL);
        }
        scsPool().setSubchainActiveBlock();
        deflateRewards();
        proposal.distributeFlag = 1;
        payAction(gasBefore);
        return true;
    }

    /// Anyone carries out some of the redemptions of an agreed proposal. The call that finds none
    /// left pays the rewards and ends the flush. False if that is not possible.
    function requestEnterAndRedeemAction(bytes32 hash) public returns (bool) {
        uint gasBefore = gasleft();
        Proposal storage proposal = proposals[hash];
        require(BALANCE != 0 && tx.gasprice <= MAX_GAS_PRICE);
        require(proposal.distributeFlag == 1 && proposal.flag == PROPOSAL_PENDING);
        if (!isApproved(hash)) {
            return false;
        }
        if (proposal.preRedeemNum != 0 && proposal.redeemAgreeList.length > nodeCount / 2) {
            if (!redeemSome(proposal)) {
                return false;
            }
            notify(ENTER_AND_REDEEM);
        } else {
            finishFlush(proposal);
        }
        payAction(gasBefore);
        return true;
    }

    function redeemSome(Proposal storage proposal) private returns (bool) {
        uint left = proposal.preRedeemNum;
        uint max = payoutMax();
        uint end = left < max ? left : max;
        uint first = proposal.redeemAddr.length - left;
        for (uint at = first; at < first + end; at++) {
            address user = proposal.redeemAddr[at];
            uint amount = proposal.redeemAmt[at];
            if (!payRedemption(user, amount)) {
                return false;
            }
            redemptions[user].redeemAmount.push(amount);
            redemptions[user].redeemtime.push(now);
            proposal.preRedeemNum--;
            dappRedeemPos++;
        }
        return true;
    }

    function finishFlush(Proposal storage proposal) private {
        distribute(proposal);
        proposal.distributeFlag = 2;
        proposal.flag = PROPOSAL_APPROVED;
        proposalHashInProgress = 0x0;
        proposalHashApprovedLast = proposal.hash;
        lastFlushBlk = block.number;
        curFlushIndex = pendingFlushIndex + 1;
        if (curFlushIndex > nodeCount) {
            curFlushIndex = 0;
        }
        if (subchainstatus == CLOSE_PENDING) {
            shut();
        }
        notify(DISTRIBUTE);
    }

    /// Pays the via, the members' gas and their rewards. Without enough money nobody is paid, and
    /// proposals wait for `addFund`.
    function distribute(Proposal storage proposal) private {
        uint needed = viaReward;
        uint rewards = 0;
        uint at;
        for (at = 0; at < proposal.minerAddr.length; at++) {
            needed += currentRefundGas[proposal.minerAddr[at]];
            rewards += proposal.distributionAmount[at];
        }
        needed += rewards;
        if (needed > totalOperation) {
            contractNeedFund += needed;
            return;
        }
        totalOperation -= needed;
        payOut(proposal.viaNodeAddress, viaReward);
        for (at = 0; at < proposal.minerAddr.length; at++) {
            address member = proposal.minerAddr[at];
            uint refund = currentRefundGas[member];
            currentRefundGas[member] = 0;
            payOut(member, refund);
            payOut(scsBeneficiary[member], proposal.distributionAmount[at]);
        }
        uint transactions = (rewards - blockReward * (proposal.end - proposal.start + 1)) / txReward;
        setRound(transactions + proposal.redeemAddr.length);
    }

    function payOut(address to, uint amount) private {
        to.transfer(amount);
        emit TransferAmount(to, amount);
    }

    /// Quiet chains are flushed less often, busy ones more often.
    function setRound(uint transactions) private {
        if (transactions <= txNumInFlush) {
            flushInRound += 40;
            if (flushInRound > maxFlushInRound) {
                flushInRound = maxFlushInRound;
            }
        } else {
            flushInRound /= 2;
            if (flushInRound < initialFlushInRound) {
                flushInRound = initialFlushInRound;
            }
        }
        scsPool().setSubchainExpireBlock(flushInRound * QUIET_ROUNDS);
    }

    function deflateRewards() private {
        blockReward -= blockReward * DEFLATOR_VALUE / 10 ** 6;
        txReward -= txReward * DEFLATOR_VALUE / 10 ** 6;
        viaReward -= viaReward * DEFLATOR_VALUE / 10 ** 6;
        syncReward -= syncReward * DEFLATOR_VALUE / 10 ** 6;
    }

    /// Pays the gas of the caller, as far as there is money for it. After a close the owner gets what
    /// belongs to nobody else.
    function payAction(uint gasBefore) private {
        uint refund = (gasBefore - gasleft() + GAS_AROUND_ACTION) * tx.gasprice;
        if (refund > totalOperation) {
            refund = totalOperation;
        }
        totalOperation -= refund;
        msg.sender.transfer(refund);
        if (subchainstatus == CLOSED) {
            totalOperation = 0;
            owner.transfer(address(this).balance - owedToUsers() - totalBond);
        }
    }

    // ---- Money and settings of the owner ----

    /// Money for rewards and gas. If it is enough and the round is over, a new round begins.
    function addFund() public payable onlyOwner {
        totalOperation += msg.value;
        if (totalOperation > contractNeedFund) {
            contractNeedFund = 0;
            if (block.number >= roundEnd()) {
                lastFlushBlk = block.number;
                notify(UPDATE_LAST_FLUSH);
            }
        }
    }

    function withdraw(address recv, uint amount) public onlyOwner {
        require(amount <= totalOperation);
        totalOperation -= amount;
        recv.transfer(amount);
    }

    /// The MicroChain ends with the next flush, for which the first turn begins at once.
    function close() public onlyOwner {
        subchainstatus = CLOSE_PENDING;
        if (proposalHashInProgress == 0x0) {
            lastFlushBlk = block.number - flushInRound;
            notify(UPDATE_LAST_FLUSH);
        }
    }

    /// A new round of 60 blocks begins.
    function reset() public onlyOwner {
        lastFlushBlk = block.number;
        flushInRound = 60;
        notify(RESET);
    }

    /// The turns begin with the first member again.
    function rebuildFromLastFlushPoint() public onlyOwner {
        curFlushIndex = 0;
    }

    function setOwner() public {
        if (owner == address(0)) {
            owner = msg.sender;
        }
    }

    function updatePerRechargeNum(uint num) public onlyOwner {
        per_recharge_num = num;
    }

    function updateRechargeCycle(uint num) public onlyOwner {
        recharge_cycle = num;
    }

    function updatePerUploadRedeemNum(uint num) public onlyOwner {
        per_upload_redeemdata_num = num;
    }

    function updatePerRedeemNum(uint num) public onlyOwner {
        per_redeemdata_num = num;
    }

    function addSyncNode(address id, string link) public onlyOwner {
        syncNodes.push(SyncNode(id, link));
    }

    function removeSyncNode(uint index) public onlyOwner {
        require(index < syncNodes.length);
        uint last = syncNodes.length - 1;
        if (index != last) {
            syncNodes[index] = syncNodes[last];
        }
        syncNodes.length = last;
    }

    /// An entry without tokens would cost its sender nothing but gas, and each SCS a place.
    function recordDeposit(uint tokens) internal {
        require(tokens > 0);
        deposits.user.push(msg.sender);
        deposits.amount.push(tokens);
        deposits.time.push(now);
    }
}
