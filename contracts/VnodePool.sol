pragma solidity 0.4.26;

/// The pool of VNODEs: where an SCS finds VNODEs that keep MicroChain blocks for others.
///
/// Keeps the selectors, arguments, results and rules of the public network's VNODE pool. Written
/// anew from the description in docs/microchain-contracts.md, 3. What differs: an entry that takes
/// the place of a removed one keeps all its fields; in the public pool it keeps the removed one's
/// state, via and RPC link. A VNODE that has withdrawn or was swept may register again.
///
/// Amounts are in sha. `bondMin` is in coins. Index 0 is nobody.
contract VnodePool {
    uint constant COIN = 10 ** 18;
    uint constant REPORTS_MAX = 5;

    uint constant PERFORMING = 1;
    uint constant WITHDRAW_PENDING = 2;

    struct Vnode {
        address from;
        uint bond;
        uint state;
        uint registerBlock;
        uint withdrawBlock;
        string rpclink;
        address via;
        string link;
    }

    mapping(address => uint) public vnodeList;
    Vnode[] public vnodeStore;
    uint public vnodeCount;
    uint public bondMin;
    address public owner;
    mapping(address => address[]) public outageReportList;
    /// The name has this spelling in the public pool.
    uint public constant PEDNING_BLOCK_DELAY = 50;
    uint public constant WITHDRAW_BLOCK_DELAY = 8640;

    constructor(uint bondMinCoins) public {
        bondMin = bondMinCoins;
        owner = msg.sender;
        add(address(0), 0, address(0), "", "");
    }

    function() public payable {
        revert();
    }

    /// Registers a VNODE with the value as its bond. `link` is where others fetch blocks.
    function register(address vnode, address via, string link, string rpclink) public payable returns (bool) {
        require(vnodeList[vnode] == 0);
        require(msg.value >= bondMin * COIN);
        vnodeList[vnode] = vnodeCount;
        add(vnode, msg.value, via, link, rpclink);
        return true;
    }

    function add(address vnode, uint bond, address via, string link, string rpclink) private {
        uint since = block.number + PEDNING_BLOCK_DELAY;
        vnodeStore.push(Vnode(vnode, bond, PERFORMING, since, uint(-1), rpclink, via, link));
        vnodeCount++;
    }

    function withdrawRequest() public returns (bool success) {
        Vnode storage entry = vnodeStore[vnodeList[msg.sender]];
        require(entry.from == msg.sender && entry.state == PERFORMING);
        entry.state = WITHDRAW_PENDING;
        entry.withdrawBlock = block.number;
        return true;
    }

    /// Pays the bond back once the delay is over. Does nothing before that.
    function withdraw() public {
        uint index = vnodeList[msg.sender];
        Vnode storage entry = vnodeStore[index];
        require(index > 0 && entry.from == msg.sender);
        if (entry.state == WITHDRAW_PENDING && block.number > entry.withdrawBlock + WITHDRAW_BLOCK_DELAY) {
            uint bond = entry.bond;
            remove(index);
            msg.sender.transfer(bond);
        }
    }

    function remove(uint index) private {
        uint last = --vnodeCount;
        delete vnodeList[vnodeStore[index].from];
        if (index != last) {
            vnodeStore[index] = vnodeStore[last];
            vnodeList[vnodeStore[index].from] = index;
        }
        vnodeStore.length = last;
    }

    function isPerforming(address vnode) public view returns (bool res) {
        uint index = vnodeList[vnode];
        if (index == 0) {
            return false;
        }
        Vnode storage entry = vnodeStore[index];
        return entry.state == PERFORMING && block.number > entry.registerBlock;
    }

    /// The link of a VNODE, or nothing if the one that `randness` names is not performing.
    function pickRandomVnode(uint randness) public view returns (string target) {
        if (vnodeCount > 1) {
            uint index = randness % vnodeCount;
            Vnode storage entry = vnodeStore[index > 0 ? index : 1];
            if (isPerforming(entry.from)) {
                return entry.link;
            }
        }
        return "";
    }

    /// Anyone says that a VNODE is away; each sender counts once.
    function reportOutage(address vnode) public {
        address[] storage reports = outageReportList[vnode];
        for (uint at = 0; at < reports.length; at++) {
            if (reports[at] == msg.sender) {
                return;
            }
        }
        if (reports.length < REPORTS_MAX) {
            reports.push(msg.sender);
        }
    }

    /// The owner removes those of `count` VNODEs from `startpos` on that `level` senders reported.
    function sweepOutage(uint level, uint startpos, uint count) public {
        require(msg.sender == owner);
        require(level > 0 && level <= REPORTS_MAX);
        require(startpos > 0 && startpos < vnodeCount);
        uint end = startpos + count < vnodeCount ? startpos + count : vnodeCount;
        for (uint index = end; index > startpos; index--) {
            address vnode = vnodeStore[index - 1].from;
            if (outageReportList[vnode].length >= level) {
                delete outageReportList[vnode];
                remove(index - 1);
            }
        }
    }
}
