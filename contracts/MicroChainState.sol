pragma solidity 0.4.26;
pragma experimental ABIEncoderV2;

import "./ScsPool.sol";

/// The built-in contract 0x0d, which tells the SCSs of a MicroChain to look at it.
contract NoticeBoard {
    function notifySCS(address microChain, uint notice) public returns (bool success);
}

/// The state of a chain base, and what an SCS reads of it. What a chain base is, and what differs from
/// the public network's, is in `MicroChainBase.sol`.
contract MicroChainState {
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
    /// Gas of an uploaded redemption, at most, and what the last upload may need besides.
    uint constant UPLOAD_GAS = 60000;
    uint constant UPLOAD_BASE_GAS = 120000;
    uint constant NO_BOUND = uint(-1);
    /// A MicroChain that makes no flush for so many rounds holds its SCSs no more.
    uint constant QUIET_ROUNDS = 5;
    /// A hash that begins with this text is bound: the rest of it is that of all that is proposed.
    bytes8 constant BOUND = "mcflush2";
    /// A hash that begins with this text is bound, too. The next 4 bytes are those of the hash of the
    /// block before the turn: no other branch of the base chain takes the proposal.
    bytes4 constant ANCHORED = "mcf3";
    /// Gas of a redemption to a user who had none before, at most, and of the rest of a payout.
    uint constant REDEMPTION_GAS = 135000;
    uint constant PAYOUT_BASE_GAS = 200000;
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

    /// What was proposed under a bound hash, as far as it is uploaded.
    struct Binding {
        bytes32 content;
        bool isComplete;
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

    uint public constant NODE_INIT_PERFORMANCE = 5;
    uint public constant AUTO_RETIRE_COUNT = 2;
    bool public constant AUTO_RETIRE = false;

    // The variables up to `recharge_cycle` have the slots that they have in the public contracts,
    // because programs can read slots through a VNODE. The ones called unused are never written.
    address public protocol;
    uint public minMember;
    uint public maxMember;
    uint public selTarget;
    uint public consensusFlag;
    uint public flushInRound;
    uint public initialFlushInRound;
    bytes32 public proposalHashInProgress;
    bytes32 public proposalHashApprovedLast;
    /// The place whose turn is first after the last flush.
    uint curFlushIndex;
    /// The place that proposed last.
    uint pendingFlushIndex;
    bytes public funcCode;
    bytes unusedState;
    uint lastFlushBlk = NEVER;
    address owner;
    uint public nodeCount;
    /// Places from `nodeCount` on can hold zero addresses.
    address[] public nodeList;
    uint8[2] public randIndex;
    mapping(address => uint) public nodePerformance;
    mapping(bytes32 => Proposal) public proposals;
    mapping(address => uint) public currentRefundGas;
    uint registerFlag;
    /// Half of the blocks that an SCS has for its turn.
    uint public proposalExpiration = 24;
    uint public penaltyBond = COIN;
    mapping(address => address) public scsBeneficiary;
    uint public blockReward = 5 * 10 ** 14;
    uint public txReward = 10 ** 11;
    uint public viaReward = 10 ** 16;
    uint public nodeToReleaseCount;
    uint[5] public nodesToRelease;
    mapping(address => uint) unusedSignatures;
    uint[] public nodesToDispel;
    address[] public nodesToJoin;
    uint public joinCntMax;
    uint public joinCntNow;
    uint public MONITOR_JOIN_FEE = 10 ** 16;
    mapping(address => uint) public nodesWatching;
    SyncNode[] public syncNodes;
    uint unusedRetirement;
    address public VnodeProtocolBaseAddr;
    uint public MONITOR_MIN_FEE = 10 ** 12;
    uint public syncReward = 10 ** 11;
    uint public MAX_GAS_PRICE = 20 * 10 ** 9;
    uint public DEFLATOR_VALUE = 80;
    uint subchainstatus;
    uint public BALANCE;
    Deposits deposits;
    uint public per_recharge_num = 250;
    uint public recharge_cycle = 6;

    uint public per_upload_redeemdata_num = 160;
    uint public per_redeemdata_num;
    uint public max_redeemdata_num = 500;
    uint public maxFlushInRound = 500;
    uint public txNumInFlush = 100;
    uint public MAX_DELETE_NUM = 5;
    uint public dappRedeemPos;
    mapping(address => RedeemRecords) redemptions;
    Monitor[] public monitors;
    uint public contractNeedFund;
    uint public totalOperation;
    uint public totalBond;
    mapping(bytes32 => Binding) bindings;

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
        scsPool().setSubchainExpireBlock(round * QUIET_ROUNDS);
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
        info.redeems[2] = payoutMax();
        info.redeems[3] = max_redeemdata_num;
        info.nodeList = nodeList;
        info.nodesToJoin = nodesToJoin;
    }

    /// The most redemptions of one payout: as many as the owner allows, if three quarters of the gas
    /// of a block are enough for them.
    function payoutMax() internal view returns (uint) {
        uint gas = block.gaslimit / 4 * 3;
        uint fitting = gas < PAYOUT_BASE_GAS + REDEMPTION_GAS ? 1 : (gas - PAYOUT_BASE_GAS) / REDEMPTION_GAS;
        return fitting < per_redeemdata_num ? fitting : per_redeemdata_num;
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

    function contains(address[] storage list, address wanted) internal view returns (bool) {
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

    function isReliable(address scs) internal view returns (bool) {
        return nodePerformance[scs] > 0 && scsPool().isPerforming(scs);
    }

    /// The first block in which the member at `index` may propose a flush.
    function getEstFlushBlock(uint index) public view returns (uint) {
        uint turns = index >= curFlushIndex ? index - curFlushIndex : index + nodeCount - curFlushIndex;
        return lastFlushBlk + flushInRound + turns * 2 * proposalExpiration;
    }

    /// The last block of the round in which every member has had its turn.
    function roundEnd() internal view returns (uint) {
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

    // ---- What the two kinds do in their own ways ----

    /// Pays a user who has left the MicroChain with `amount` tokens. False stops the redemptions.
    function payRedemption(address user, uint amount) internal returns (bool);

    /// The coins of this contract that are users' deposits, in sha.
    function owedToUsers() internal view returns (uint);
}
