pragma solidity 0.4.26;
pragma experimental ABIEncoderV2;

import "./ScsPool.sol";

/// The built-in contract 0x0d, which tells the SCSs of a MicroChain to look at it.
contract NoticeBoard {
    function notifySCS(address microChain, uint notice) public returns (bool success);
}

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
/// - The slots of the storage are others. Programs use the functions.
///
/// Amounts of the base chain's coin are in sha, tokens of the MicroChain in units of 10^-18.
contract MicroChainBase {
    NoticeBoard constant NOTICE_BOARD = NoticeBoard(0x0d);
    uint constant COIN = 10 ** 18;
    uint constant NEVER = uint(-1);

    // Notices.
    uint constant REGISTER_OPEN = 0;
    uint constant REGISTER_CLOSE = 1;
    uint constant CREATE_PROPOSAL = 2;
    uint constant APPROVE_PROPOSAL = 4;
    uint constant REGISTER_ADD = 5;
    uint constant NEW_MONITOR = 6;
    uint constant NEW_BACKUP = 7;
    uint constant UPDATE_LAST_FLUSH = 8;
    uint constant DISTRIBUTE = 9;
    uint constant RESET = 10;
    uint constant UPLOAD_REDEEM = 11;
    uint constant ENTER_AND_REDEEM = 12;
    uint constant RELEASE = 13;

    // What `getSCSRole` answers.
    uint constant ROLE_NONE = 0;
    uint constant ROLE_CONSENSUS = 1;
    uint constant ROLE_MONITOR = 2;
    uint constant ROLE_BACKUP = 3;
    uint constant ROLE_SELECTABLE = 4;

    // `flag` of a proposal.
    uint constant PROPOSAL_NONE = 0;
    uint constant PROPOSAL_PENDING = 1;
    uint constant PROPOSAL_APPROVED = 3;
    uint constant PROPOSAL_EXPIRED = 5;

    // What `checkProposalStatus` answers.
    uint constant UNDECIDED = 0;
    uint constant APPROVAL = 1;
    uint constant EXPIRED = 2;

    // `subchainstatus`.
    uint constant OPEN = 0;
    uint constant CLOSE_PENDING = 1;
    uint constant CLOSED = 2;

    // Who may register.
    uint constant NOBODY = 0;
    uint constant MEMBERS = 1;
    uint constant BACKUPS = 2;

    /// Gas of a transaction outside of what `gasleft` can measure, as refunds count it.
    uint constant GAS_AROUND_VOTE = 21486;
    uint constant GAS_AROUND_ACTION = 15000;
    /// A monitor's payment from which on it has its role.
    uint constant MONITOR_ROLE_MIN = 10 ** 9;

    struct Proposal {
        address proposedBy;
        bytes32 lastApproved;
        bytes32 hash;
        uint start;
        uint end;
        uint[] distributionAmount;
        uint flag;
        uint startingBlock;
        uint[] voters;
        uint votecount;
        uint[] badActors;
        address viaNodeAddress;
        uint preRedeemNum;
        address[] redeemAddr;
        uint[] redeemAmt;
        address[] minerAddr;
        uint distributeFlag;
        address[] redeemAgreeList;
    }

    struct VnodeInfo {
        address protocol;
        uint[] members;
        uint[] rewards;
        uint proposalExpiration;
        address VnodeProtocolBaseAddr;
        uint penaltyBond;
        uint subchainstatus;
        address owner;
        uint BALANCE;
        uint[] redeems;
        address[] nodeList;
        address[] nodesToJoin;
    }

    struct SyncNode {
        address nodeId;
        string link;
    }

    struct Monitor {
        address from;
        uint bond;
        string link;
    }

    /// Deposits that wait for the MicroChain, in the order in which they came. None is removed.
    struct Deposits {
        address[] user;
        uint[] amount;
        uint[] time;
    }

    struct RedeemRecords {
        uint[] redeemAmount;
        uint[] redeemtime;
    }

    // Constants with a getter, and settings.
    uint public constant NODE_INIT_PERFORMANCE = 5;
    uint public constant AUTO_RETIRE_COUNT = 2;
    bool public constant AUTO_RETIRE = false;
    uint public MONITOR_JOIN_FEE = 10 ** 16;
    uint public MONITOR_MIN_FEE = 10 ** 12;
    uint public MAX_GAS_PRICE = 20 * 10 ** 9;
    uint public DEFLATOR_VALUE = 80;
    uint public MAX_DELETE_NUM = 5;
    /// Half of the blocks that an SCS has for its turn.
    uint public proposalExpiration = 24;
    uint public penaltyBond = COIN;
    uint public maxFlushInRound = 500;
    uint public txNumInFlush = 100;
    uint public per_recharge_num = 250;
    uint public recharge_cycle = 6;
    uint public per_upload_redeemdata_num = 160;
    uint public per_redeemdata_num;
    uint public max_redeemdata_num = 500;
    address public protocol;
    address public VnodeProtocolBaseAddr;
    uint public minMember;
    uint public maxMember;
    uint public initialFlushInRound;
    uint public consensusFlag;
    bytes public funcCode;
    uint public BALANCE;
    SyncNode[] public syncNodes;

    // Members.
    uint public nodeCount;
    /// Places from `nodeCount` on can hold zero addresses.
    address[] public nodeList;
    mapping(address => uint) public nodePerformance;
    mapping(address => address) public scsBeneficiary;
    uint public selTarget;
    uint8[2] public randIndex;
    address[] public nodesToJoin;
    uint public joinCntMax;
    uint public joinCntNow;
    uint[5] public nodesToRelease;
    uint public nodeToReleaseCount;
    uint[] public nodesToDispel;
    mapping(address => uint) public nodesWatching;
    Monitor[] public monitors;

    // Flushes.
    uint public flushInRound;
    bytes32 public proposalHashInProgress;
    bytes32 public proposalHashApprovedLast;
    mapping(bytes32 => Proposal) public proposals;
    mapping(address => uint) public currentRefundGas;
    uint public dappRedeemPos;
    uint public blockReward = 5 * 10 ** 14;
    uint public txReward = 10 ** 11;
    uint public viaReward = 10 ** 16;
    uint public syncReward = 10 ** 11;

    // Money.
    uint public contractNeedFund;
    uint public totalOperation;
    uint public totalBond;

    address owner;
    uint subchainstatus;
    uint registerFlag;
    uint lastFlushBlk = NEVER;
    /// The place whose turn is first after the last flush, and the place that proposed last.
    uint curFlushIndex;
    uint pendingFlushIndex;
    Deposits deposits;
    mapping(address => RedeemRecords) redemptions;

    event ReportStatus(string message);
    event TransferAmount(address addr, uint amount);

    modifier onlyOwner() {
        require(msg.sender == owner);
        _;
    }

    modifier whileOpen() {
        require(subchainstatus == OPEN);
        _;
    }

    constructor(address pool, address vnodes, uint min, uint max, uint thousandth, uint round) public {
        require(min == 1 || min == 3 || min == 5 || min == 7);
        require(max == 11 || max == 21 || max == 31 || max == 51 || max == 99);
        require(round >= 40 && round <= 500);
        owner = msg.sender;
        protocol = pool;
        VnodeProtocolBaseAddr = vnodes;
        minMember = min;
        maxMember = max;
        flushInRound = round;
        initialFlushInRound = round;
        randIndex[1] = 1;
        selTarget = scsPool().getSelectionTarget(thousandth, min);
        scsPool().setSubchainActiveBlock();
        scsPool().setSubchainExpireBlock(round * 5);
    }

    /// Takes the bonds that the pool pays out. Nobody else can send coins without a function.
    function() public payable {
        require(msg.sender == protocol);
    }

    function scsPool() internal view returns (ScsPool) {
        return ScsPool(protocol);
    }

    function notify(uint notice) internal {
        NOTICE_BOARD.notifySCS(address(this), notice);
    }

    // ---- What an SCS reads ----

    function getVnodeInfo() public view returns (VnodeInfo info) {
        info.protocol = protocol;
        info.members = new uint[](2);
        info.members[0] = minMember;
        info.members[1] = maxMember;
        info.rewards = new uint[](3);
        info.rewards[0] = blockReward;
        info.rewards[1] = txReward;
        info.rewards[2] = viaReward;
        info.proposalExpiration = proposalExpiration;
        info.VnodeProtocolBaseAddr = VnodeProtocolBaseAddr;
        info.penaltyBond = penaltyBond;
        info.subchainstatus = subchainstatus;
        info.owner = owner;
        info.BALANCE = BALANCE;
        info.redeems = new uint[](4);
        info.redeems[0] = dappRedeemPos;
        info.redeems[1] = per_upload_redeemdata_num;
        info.redeems[2] = per_redeemdata_num;
        info.redeems[3] = max_redeemdata_num;
        info.nodeList = nodeList;
        info.nodesToJoin = nodesToJoin;
    }

    /// 1: the proposal in progress. 2: the one approved last. Others: an empty one.
    function getProposal(uint types) public view returns (Proposal) {
        if (types == 1) {
            return proposals[proposalHashInProgress];
        }
        if (types == 2) {
            return proposals[proposalHashApprovedLast];
        }
    }

    function getSCSRole(address scs) public view returns (uint) {
        if (contains(nodeList, scs)) {
            return ROLE_CONSENSUS;
        }
        if (nodesWatching[scs] >= MONITOR_ROLE_MIN) {
            return ROLE_MONITOR;
        }
        if (contains(nodesToJoin, scs)) {
            return ROLE_BACKUP;
        }
        if (scsPool().isPerforming(scs) && matchSelTarget(scs, randIndex[0], randIndex[1])) {
            return ROLE_SELECTABLE;
        }
        return ROLE_NONE;
    }

    function contains(address[] storage list, address wanted) private view returns (bool) {
        for (uint at = 0; at < list.length; at++) {
            if (list[at] == wanted) {
                return true;
            }
        }
        return false;
    }

    /// Whether two hex digits of `addr`, at the places `index1` and `index2`, are near those of this
    /// contract. The distance is at most `selTarget` and wraps from 255 to 0 only upwards.
    function matchSelTarget(address addr, uint8 index1, uint8 index2) public view returns (bool) {
        uint its = digit(addr, index1) * 16 + digit(addr, index2);
        uint mine = digit(address(this), index1) * 16 + digit(address(this), index2);
        uint distance = its < mine ? mine - its : its - mine;
        if (selTarget == 255 || distance <= selTarget) {
            return true;
        }
        return its < mine && mine + selTarget >= 256 && distance >= 256 - selTarget;
    }

    function digit(address addr, uint8 index) private pure returns (uint) {
        return (uint(addr) / 16 ** (39 - uint(index))) % 16;
    }

    function isMemberValid(address addr) public view returns (bool) {
        return nodePerformance[addr] > 0;
    }

    function isReliable(address scs) private view returns (bool) {
        return nodePerformance[scs] > 0 && scsPool().isPerforming(scs);
    }

    /// The first block in which the member at `index` may propose a flush.
    function getEstFlushBlock(uint index) public view returns (uint) {
        uint turns = index >= curFlushIndex ? index - curFlushIndex : index + nodeCount - curFlushIndex;
        return lastFlushBlk + flushInRound + turns * 2 * proposalExpiration;
    }

    /// The last block of the round in which every member has had its turn.
    function roundEnd() private view returns (uint) {
        return lastFlushBlk + flushInRound + nodeCount * 2 * proposalExpiration;
    }

    /// Whether the round is not over.
    function getFlushStatus() public view returns (bool) {
        return block.number <= roundEnd();
    }

    /// Blocks until the present turn ends, or 0 after the round.
    function getFlushInfo() public view returns (uint) {
        for (uint turn = 1; turn <= nodeCount; turn++) {
            uint end = lastFlushBlk + flushInRound + turn * 2 * proposalExpiration;
            if (end > block.number) {
                return end - block.number;
            }
        }
        return 0;
    }

    function getholdingPool() public view returns (address[]) {
        return deposits.user;
    }

    /// The deposits from position `holdingPoolPos` on. For the zero address those of all users; for
    /// a user its own, and the addresses in the answer are then zero.
    function getEnteringAmount(address userAddr, uint holdingPoolPos)
        public
        view
        returns (address[] enteringAddr, uint[] enteringAmt, uint[] enteringtime, uint[] rechargeParam)
    {
        uint found = 0;
        uint at;
        for (at = holdingPoolPos; at < deposits.user.length; at++) {
            if (userAddr == address(0) || deposits.user[at] == userAddr) {
                found++;
            }
        }
        enteringAddr = new address[](found);
        enteringAmt = new uint[](found);
        enteringtime = new uint[](found);
        rechargeParam = new uint[](2);
        rechargeParam[0] = per_recharge_num;
        rechargeParam[1] = recharge_cycle;
        uint next = 0;
        for (at = holdingPoolPos; next < found; at++) {
            if (userAddr == address(0)) {
                enteringAddr[next] = deposits.user[at];
            } else if (deposits.user[at] != userAddr) {
                continue;
            }
            enteringAmt[next] = deposits.amount[at];
            enteringtime[next] = deposits.time[at];
            next++;
        }
    }

    function getRedeemRecords(address userAddr) public view returns (RedeemRecords) {
        return redemptions[userAddr];
    }

    function getMonitorInfo() public view returns (address[], string[]) {
        address[] memory ids = new address[](monitors.length);
        string[] memory links = new string[](monitors.length);
        for (uint at = 0; at < monitors.length; at++) {
            ids[at] = monitors[at].from;
            links[at] = monitors[at].link;
        }
        return (ids, links);
    }

    // ---- Joining and leaving ----

    /// The owner lets SCSs join.
    function registerOpen() public onlyOwner whileOpen {
        registerFlag = MEMBERS;
        notify(REGISTER_OPEN);
    }

    /// An SCS joins. The signature covers sha256(SCS, this contract). False if it cannot join now.
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

    // ---- A flush ----

    /// The member at `indexInlist` proposes, in its turn, the blocks `blocknum[0]` to `blocknum[1]`
    /// with the hash `hashlist[1]`; `hashlist[0]` is the hash of the flush before. `distAmount` has
    /// the reward of each member in sha, and `preRedeemNum` is how many redemptions will follow.
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
        notify(preRedeemNum == 0 ? CREATE_PROPOSAL : UPLOAD_REDEEM);
        bookRefund(gasBefore);
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

    function bookRefund(uint gasBefore) private {
        currentRefundGas[msg.sender] += (gasBefore - gasleft() + GAS_AROUND_VOTE) * tx.gasprice;
    }

    /// The proposer uploads redemptions: who gets how many tokens' worth.
    function UploadRedeemData(address[] redeemAddr, uint[] redeemAmt) public returns (bool) {
        uint gasBefore = gasleft();
        Proposal storage proposal = proposals[proposalHashInProgress];
        require(msg.sender == proposal.proposedBy);
        require(proposal.redeemAddr.length + redeemAddr.length <= proposal.preRedeemNum);
        require(tx.gasprice <= MAX_GAS_PRICE);
        for (uint at = 0; at < redeemAddr.length; at++) {
            proposal.redeemAddr.push(redeemAddr[at]);
            proposal.redeemAmt.push(redeemAmt[at]);
        }
        notify(proposal.redeemAddr.length == proposal.preRedeemNum ? CREATE_PROPOSAL : UPLOAD_REDEEM);
        bookRefund(gasBefore);
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
        bookRefund(gasBefore);
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
        require(proposal.flag == PROPOSAL_PENDING && tx.gasprice <= MAX_GAS_PRICE);
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

    /// Bad members lose all performance. Members without any lose their bond and will be dropped, a
    /// few at a time. Voters regain performance.
    function judgeMembers(Proposal storage proposal) private {
        uint at;
        for (at = 0; at < proposal.badActors.length; at++) {
            nodePerformance[nodeList[proposal.badActors[at]]] = 0;
        }
        for (at = 0; at < nodeCount && nodesToDispel.length < MAX_DELETE_NUM; at++) {
            if (nodePerformance[nodeList[at]] == 0) {
                nodesToDispel.push(at);
                scsPool().forfeitBond(nodeList[at], penaltyBond);
                totalOperation += penaltyBond;
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
    function dropDispelled() private {
        for (uint at = nodesToDispel.length; at > 0; at--) {
            dropMember(nodesToDispel[at - 1]);
        }
        nodesToDispel.length = 0;
    }

    function dropReleased() private {
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
    function joinBackups() private {
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

    /// Anyone carries out some of the redemptions of an agreed proposal. The call that finds none
    /// left pays the rewards and ends the flush. False if that is not possible.
    function requestEnterAndRedeemAction(bytes32 hash) public returns (bool) {
        uint gasBefore = gasleft();
        Proposal storage proposal = proposals[hash];
        require(BALANCE != 0);
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
        uint end = left < per_redeemdata_num ? left : per_redeemdata_num;
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
        setRound(transactions);
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
    }

    function deflateRewards() private {
        blockReward -= blockReward * DEFLATOR_VALUE / 10 ** 6;
        txReward -= txReward * DEFLATOR_VALUE / 10 ** 6;
        viaReward -= viaReward * DEFLATOR_VALUE / 10 ** 6;
        syncReward -= syncReward * DEFLATOR_VALUE / 10 ** 6;
    }

    /// Pays the gas of the caller. After a close the owner gets what belongs to nobody else.
    function payAction(uint gasBefore) private {
        uint refund = (gasBefore - gasleft() + GAS_AROUND_ACTION) * tx.gasprice;
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

    function shut() private {
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

    // ---- What the two kinds do in their own ways ----

    /// Pays a user who has left the MicroChain with `amount` tokens. False stops the redemptions.
    function payRedemption(address user, uint amount) internal returns (bool);

    /// The coins of this contract that are users' deposits, in sha.
    function owedToUsers() internal view returns (uint);

    function recordDeposit(uint tokens) internal {
        deposits.user.push(msg.sender);
        deposits.amount.push(tokens);
        deposits.time.push(now);
    }
}
