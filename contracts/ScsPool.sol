pragma solidity 0.4.26;

/// The pool of SCSs: who may be chosen by MicroChains, and the bond of each.
///
/// Keeps the selectors, arguments, results and rules of the public network's SCS pool, so that
/// programs written for that pool work with this one. Written anew from the description in
/// docs/microchain-contracts.md, 2. Differences that a caller could see:
/// - The signature of an SCS covers the amount of the bond and the pool, too. That of the public
///   pool covers only SCS and MicroChain, so that a contract with such a signature takes the whole
///   bond.
/// - A MicroChain holds one pledge of an SCS at a time, and gets none after it has taken one. So a
///   signature gives it one pledge to keep, and not one after the other.
///
/// Amounts are in sha. `bondMin` is in coins.
contract ScsPool {
    uint constant COIN = 10 ** 18;

    uint constant NOT_REGISTERED = 0;
    uint constant PERFORMING = 1;
    uint constant WITHDRAW_PENDING = 2;
    uint constant WITHDRAWN = 4;

    struct Scs {
        address from;
        uint bond;
        uint state;
        uint registerBlock;
        uint withdrawBlock;
    }

    /// What an SCS has pledged: `amount[i]` of its bond to the MicroChain `subchainAddr[i]`.
    struct Pledges {
        uint bondApproved;
        uint bondedCount;
        address[] subchainAddr;
        uint[] amount;
    }

    mapping(address => Scs) public scsList;
    mapping(address => Pledges) public scsApprovalList;
    uint public scsCount;
    string public subChainProtocol;
    uint public bondMin;
    uint public constant PENDING_BLOCK_DELAY = 5;
    uint public constant WITHDRAW_BLOCK_DELAY = 8640;
    mapping(address => uint) public subChainLastActiveBlock;
    mapping(address => uint) public subChainExpireBlock;
    address[] public scsArray;
    uint public protocolType;
    /// SCS, then MicroChain: whether it has taken a pledge of that SCS.
    mapping(address => mapping(address => bool)) private forfeited;

    event Registered(address scs);
    event UnRegistered(address sender);

    constructor(string name, uint bondMinCoins, uint kind) public {
        subChainProtocol = name;
        bondMin = bondMinCoins;
        protocolType = kind;
    }

    function() public payable {
        revert();
    }

    /// Registers `scs` with the value as its bond, or adds the value to its bond. Anyone may pay.
    /// Each payment is at least `bondMin`. An SCS that has withdrawn cannot register again.
    function register(address scs) public payable returns (bool) {
        Scs storage entry = scsList[scs];
        require(msg.value >= bondMin * COIN);
        if (entry.state == NOT_REGISTERED) {
            scsArray.push(scs);
            scsCount++;
            entry.from = scs;
            entry.state = PERFORMING;
            entry.registerBlock = block.number + PENDING_BLOCK_DELAY;
            entry.withdrawBlock = uint(-1);
        } else {
            require(entry.state == PERFORMING);
        }
        entry.bond += msg.value;
        return true;
    }

    /// The sender leaves the pool. No MicroChain may still hold a pledge of it.
    function withdrawRequest() public returns (bool success) {
        Scs storage entry = scsList[msg.sender];
        require(entry.state == PERFORMING);
        require(scsApprovalList[msg.sender].bondedCount == 0);
        entry.state = WITHDRAW_PENDING;
        entry.withdrawBlock = block.number;
        scsCount--;
        uint last = scsArray.length - 1;
        for (uint at = 0; at <= last; at++) {
            if (scsArray[at] == msg.sender) {
                scsArray[at] = scsArray[last];
                scsArray.length = last;
                break;
            }
        }
        emit UnRegistered(msg.sender);
        return true;
    }

    /// Pays the bond back once the delay is over. Does nothing before that.
    function withdraw() public {
        Scs storage entry = scsList[msg.sender];
        if (entry.state == WITHDRAW_PENDING && block.number > entry.withdrawBlock + WITHDRAW_BLOCK_DELAY) {
            entry.state = WITHDRAWN;
            msg.sender.transfer(entry.bond);
        }
    }

    function isPerforming(address scs) public view returns (bool res) {
        Scs storage entry = scsList[scs];
        return entry.state == PERFORMING && block.number > entry.registerBlock;
    }

    /// How far an SCS may be from a MicroChain, in 256ths, so that about `thousandth` of a thousand
    /// SCSs are selectable, and at least `minnum` (never fewer than 50). 255 selects all.
    function getSelectionTarget(uint thousandth, uint minnum) public view returns (uint target) {
        uint floor = minnum > 50 ? minnum : 50;
        if (scsCount < floor) {
            return 255;
        }
        uint wanted = thousandth * scsCount / 1000;
        return halfWidth(wanted > floor ? wanted : floor);
    }

    /// The same for a wanted number of SCSs.
    function getSelectionTargetByCount(uint targetnum) public view returns (uint target) {
        if (targetnum == 0) {
            return 0;
        }
        return scsCount > targetnum ? halfWidth(targetnum) : 255;
    }

    function halfWidth(uint wanted) private view returns (uint) {
        return (wanted * 256 / scsCount + 1) / 2;
    }

    /// The MicroChains that hold a pledge of `addr`.
    function approvalAddresses(address addr) public view returns (address[]) {
        return scsApprovalList[addr].subchainAddr;
    }

    /// What they hold, in the same order.
    function approvalAmounts(address addr) public view returns (uint[]) {
        return scsApprovalList[addr].amount;
    }

    /// A MicroChain says after how many quiet blocks its SCSs may leave by `releaseRequest`.
    function setSubchainExpireBlock(uint blocks) public {
        subChainExpireBlock[msg.sender] = blocks;
    }

    /// A MicroChain says that it is alive.
    function setSubchainActiveBlock() public {
        subChainLastActiveBlock[msg.sender] = block.number;
    }

    /// The calling MicroChain gets a pledge of `amount` from `scs`, whose signature covers
    /// sha256(scs, MicroChain, amount, this pool). Returns false if anything is wrong, if it holds a
    /// pledge already, and if it has taken one before.
    function approveBond(address scs, uint amount, uint8 v, bytes32 r, bytes32 s) public returns (bool) {
        Pledges storage pledges = scsApprovalList[scs];
        bytes32 digest = sha256(abi.encodePacked(scs, msg.sender, amount, address(this)));
        if (!isPerforming(scs) || ecrecover(digest, v, r, s) != scs) {
            return false;
        }
        if (amount > scsList[scs].bond - pledges.bondApproved || forfeited[scs][msg.sender]) {
            return false;
        }
        for (uint at = 0; at < pledges.bondedCount; at++) {
            if (pledges.subchainAddr[at] == msg.sender) {
                return false;
            }
        }
        pledges.bondApproved += amount;
        pledges.bondedCount++;
        pledges.subchainAddr.push(msg.sender);
        pledges.amount.push(amount);
        return true;
    }

    /// The calling MicroChain takes `amount` of the bond. False if it holds no such pledge.
    function forfeitBond(address scs, uint amount) public payable returns (bool) {
        if (!dropPledge(scs, msg.sender, amount)) {
            return false;
        }
        forfeited[scs][msg.sender] = true;
        scsList[scs].bond -= amount;
        msg.sender.transfer(amount);
        return true;
    }

    /// The calling MicroChain gives a pledge of `amount` back. False if it holds none.
    function releaseFromSubchain(address scs, uint amount) public returns (bool) {
        return dropPledge(scs, msg.sender, amount);
    }

    /// Anyone frees `scs` from a MicroChain that has been quiet for too long.
    function releaseRequest(address scs, address subchain) public returns (bool) {
        Pledges storage pledges = scsApprovalList[scs];
        if (block.number <= subChainLastActiveBlock[subchain] + subChainExpireBlock[subchain]) {
            return false;
        }
        for (uint at = 0; at < pledges.bondedCount; at++) {
            if (pledges.subchainAddr[at] == subchain) {
                removePledge(pledges, at);
                return true;
            }
        }
        return false;
    }

    function dropPledge(address scs, address subchain, uint amount) private returns (bool) {
        Pledges storage pledges = scsApprovalList[scs];
        for (uint at = 0; at < pledges.bondedCount; at++) {
            if (pledges.subchainAddr[at] == subchain && pledges.amount[at] == amount) {
                removePledge(pledges, at);
                return true;
            }
        }
        return false;
    }

    /// The last pledge takes the place of the one that goes.
    function removePledge(Pledges storage pledges, uint at) private {
        uint last = pledges.bondedCount - 1;
        pledges.bondApproved -= pledges.amount[at];
        pledges.bondedCount = last;
        pledges.subchainAddr[at] = pledges.subchainAddr[last];
        pledges.amount[at] = pledges.amount[last];
        pledges.subchainAddr.length = last;
        pledges.amount.length = last;
    }
}
