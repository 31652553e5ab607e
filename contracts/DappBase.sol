pragma solidity 0.4.26;
pragma experimental ABIEncoderV2;

/// The first contract of a MicroChain: the list of its Dapps, and the vault of its tokens.
///
/// Keeps the selectors, arguments, results and rules of the public network's DappBase. Written anew
/// from the description in docs/microchain-contracts.md, 5. It has `getRedeemPage` in addition, and
/// otherwise differs in nothing that a caller could see. So it has the public one's holes, too, which
/// an SCS must close: one vote of anyone is enough for a node list of one, votes for a list are never
/// forgotten, and a withdrawal can be of nothing.
///
/// The whole supply is paid to the constructor, so every token outside was paid out here.
contract DappBase {
    uint constant ENABLED = 1;

    struct DappInfo {
        address dappAddr;
        address owner;
        string dappABI;
        uint state;
    }

    struct Withdrawals {
        address[] user;
        uint[] amount;
        uint[] time;
    }

    struct Deposits {
        address[] user;
        uint[] amount;
        uint[] time;
        uint[] buyTime;
    }

    /// The votes for one list of deposits.
    struct Credit {
        address[] voters;
        bool done;
    }

    string public coinName;
    address[] public curNodeList;
    uint public enterPos;
    DappInfo[] public dappList;
    /// 1 + the index in `dappList`; 0 for others.
    mapping(address => uint) public dappRecord;
    bool public allDeploySwitch;

    address owner;
    Withdrawals withdrawals;
    Deposits deposits;
    mapping(bytes32 => Credit) credits;
    mapping(bytes32 => address[]) listVoters;

    constructor(string name, bool anyoneDeploys) public payable {
        owner = msg.sender;
        coinName = name;
        allDeploySwitch = anyoneDeploys;
    }

    modifier onlyOwner() {
        require(msg.sender == owner);
        _;
    }

    function getCurNodeList() public view returns (address[] nodeList) {
        return curNodeList;
    }

    /// Whether `addr` is in `addrs`.
    function have(address[] addrs, address addr) public view returns (bool) {
        for (uint at = 0; at < addrs.length; at++) {
            if (addrs[at] == addr) {
                return true;
            }
        }
        return false;
    }

    /// The deposits that `userAddr` was credited, oldest first: tokens, and when they were credited.
    function getEnterRecords(address userAddr) public view returns (uint[] enterAmt, uint[] entertime) {
        uint found = count(deposits.user, userAddr, 0);
        enterAmt = new uint[](found);
        entertime = new uint[](found);
        uint next = 0;
        for (uint at = 0; next < found; at++) {
            if (deposits.user[at] == userAddr) {
                enterAmt[next] = deposits.amount[at];
                entertime[next] = deposits.time[at];
                next++;
            }
        }
    }

    /// The withdrawals from position `pos` on. For the zero address those of all users; for a user
    /// its own, and the addresses in the answer are then zero.
    function getRedeemMapping(address userAddr, uint pos)
        public
        view
        returns (address[] redeemingAddr, uint[] redeemingAmt, uint[] redeemingtime)
    {
        bool all = userAddr == address(0);
        uint found = all ? withdrawals.user.length - pos : count(withdrawals.user, userAddr, pos);
        redeemingAddr = new address[](found);
        redeemingAmt = new uint[](found);
        redeemingtime = new uint[](found);
        uint next = 0;
        for (uint at = pos; next < found; at++) {
            if (all || withdrawals.user[at] == userAddr) {
                if (all) {
                    redeemingAddr[next] = withdrawals.user[at];
                }
                redeemingAmt[next] = withdrawals.amount[at];
                redeemingtime[next] = withdrawals.time[at];
                next++;
            }
        }
    }

    /// The withdrawals of all users from position `pos` on, at most `max` of them, and how many there
    /// are in all.
    function getRedeemPage(uint pos, uint max)
        public
        view
        returns (address[] redeemingAddr, uint[] redeemingAmt, uint[] redeemingtime, uint total)
    {
        total = withdrawals.user.length;
        uint found = pos < total ? total - pos : 0;
        if (found > max) {
            found = max;
        }
        redeemingAddr = new address[](found);
        redeemingAmt = new uint[](found);
        redeemingtime = new uint[](found);
        for (uint at = 0; at < found; at++) {
            redeemingAddr[at] = withdrawals.user[pos + at];
            redeemingAmt[at] = withdrawals.amount[pos + at];
            redeemingtime[at] = withdrawals.time[pos + at];
        }
    }

    function count(address[] storage users, address user, uint from) private view returns (uint found) {
        for (uint at = from; at < users.length; at++) {
            if (users[at] == user) {
                found++;
            }
        }
    }

    /// The value goes into the vault; the next flush pays it out on the base chain.
    function redeemFromMicroChain() public payable {
        withdrawals.user.push(msg.sender);
        withdrawals.amount.push(msg.value);
        withdrawals.time.push(now);
    }

    /// Sets the list of SCSs: at once if the owner sends it, otherwise when more than half as many
    /// senders as the new list has members have sent it.
    function updateNodeList(address[] newlist) public {
        if (msg.sender == owner) {
            curNodeList = newlist;
        }
        bytes32 digest = keccak256(abi.encodePacked(newlist));
        if (digest == keccak256(abi.encodePacked(curNodeList))) {
            return;
        }
        address[] storage voters = listVoters[digest];
        if (!have(voters, msg.sender)) {
            voters.push(msg.sender);
            if (voters.length > newlist.length / 2) {
                curNodeList = newlist;
            }
        }
    }

    /// A member's vote for the deposits from position `pos` on. With more than half of the members
    /// they are paid out, and `enterPos` moves on. Contracts are recorded and not paid.
    function postFlush(uint pos, address[] tosend, uint[] amount, uint[] times) public {
        require(have(curNodeList, msg.sender));
        require(tosend.length == amount.length);
        require(pos == enterPos);
        Credit storage credit = credits[keccak256(abi.encodePacked(pos, tosend, amount, times))];
        if (credit.done || have(credit.voters, msg.sender)) {
            return;
        }
        credit.voters.push(msg.sender);
        if (credit.voters.length > curNodeList.length / 2) {
            credit.done = true;
            enterPos += tosend.length;
            for (uint at = 0; at < tosend.length; at++) {
                pay(tosend[at], amount[at], times[at]);
            }
        }
    }

    function pay(address user, uint amount, uint bought) private {
        deposits.user.push(user);
        deposits.amount.push(amount);
        deposits.time.push(now);
        deposits.buyTime.push(bought);
        uint size;
        assembly {
            size := extcodesize(user)
        }
        if (size == 0) {
            user.transfer(amount);
        }
    }

    function registerDapp(address dappAddr, address dappOwner, string dappABI) public onlyOwner {
        require(dappRecord[dappAddr] == 0);
        dappRecord[dappAddr] = dappList.push(DappInfo(dappAddr, dappOwner, dappABI, ENABLED));
    }

    function removeDapp(address dappAddr) public onlyOwner {
        uint place = dappRecord[dappAddr];
        if (place == 0) {
            return;
        }
        uint last = dappList.length;
        if (place != last) {
            dappList[place - 1] = dappList[last - 1];
            dappRecord[dappList[place - 1].dappAddr] = place;
        }
        dappList.length = last - 1;
        delete dappRecord[dappAddr];
    }

    function updateDapp(address dappAddr, address dappOwner, string dappABI, uint state) public onlyOwner {
        uint place = dappRecord[dappAddr];
        require(place > 0);
        dappList[place - 1] = DappInfo(dappAddr, dappOwner, dappABI, state);
    }

    function getDappList() public view returns (DappInfo[]) {
        return dappList;
    }

    function getDappABI(address dappAddr) public view returns (string) {
        uint place = dappRecord[dappAddr];
        return place == 0 ? "" : dappList[place - 1].dappABI;
    }

    /// 1 enabled; 0 disabled or unknown.
    function getDappState(address dappAddr) public view returns (uint) {
        uint place = dappRecord[dappAddr];
        return place == 0 ? 0 : dappList[place - 1].state;
    }
}
