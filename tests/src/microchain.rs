//! Makes MicroChains as their owner does: by transactions of the base chain, from an account that
//! the node signs for.
//!
//! Knows the contracts in `contracts/`. Arguments are encoded here. Of results, single words are
//! read, and what a chain base says of its last flush.

use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use crate::call::Caller;
use crate::quantity::{quantity, to_quantity};
use crate::scs::Scs;
use crate::wait::wait_within;

/// Sha of a coin.
pub const COIN: u128 = 1_000_000_000_000_000_000;
/// Tokens of a MicroChain that [`MicroChainOwner::chains`] makes, in whole ones.
pub const SUPPLY: u128 = 1_000_000;
/// Tokens for a coin.
pub const RATE: u128 = 1000;
/// Base blocks from one flush to the next.
const ROUND: u128 = 40;
/// Gas for the creation of a contract.
const CREATE_GAS: u64 = 8_900_000;
/// Gas for a call.
const CALL_GAS: u64 = 1_000_000;
/// The price of gas, in sha.
const GAS_PRICE: u64 = 20_000_000_000;
/// Longest wait for transactions, or for what they cause.
const BLOCKS_PATIENCE: Duration = Duration::from_secs(240);

/// The address that is paid for relaying.
pub const PROXY: &str = "0x71bef1a57901d4c73de7683edb830f0b9914311a";
/// The owner's next nonce on a MicroChain after [`MicroChainOwner::dapps`].
pub const OWNER_NONCE: u64 = 3;

/// The content of `contracts/compiled.json`.
fn compiled() -> &'static Value {
    static COMPILED: OnceLock<Value> = OnceLock::new();
    COMPILED.get_or_init(|| {
        serde_json::from_str(include_str!("../../contracts/compiled.json"))
            .expect("every test of the contracts would fail")
    })
}

/// An argument of a function or of a constructor.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A number.
    Number(u128),
    /// An address, with 0x.
    Account(String),
    /// A text.
    Text(String),
}

/// Arguments in the form of the contracts, as hexadecimal digits.
pub fn encoded(arguments: &[Argument]) -> String {
    let (mut heads, mut tails) = (String::new(), String::new());
    for argument in arguments {
        match argument {
            Argument::Number(number) => heads.push_str(&format!("{number:064x}")),
            Argument::Account(address) => {
                heads.push_str(&format!(
                    "{:0>64}",
                    address.trim_start_matches("0x").to_lowercase()
                ));
            }
            Argument::Text(text) => {
                heads.push_str(&format!("{:064x}", 32 * arguments.len() + tails.len() / 2));
                let digits = hex::encode(text);
                let padded = digits.len().next_multiple_of(64);
                tails.push_str(&format!("{:064x}{digits:0<padded$}", text.len()));
            }
        }
    }
    heads + &tails
}

/// The code that creates one of our contracts with these arguments.
///
/// # Panics
/// If there is no such contract.
pub fn creation(contract: &str, arguments: &[Argument]) -> String {
    let code = compiled()["contracts"][contract]["bytecode"].as_str();
    let code = code.unwrap_or_else(|| panic!("contracts/compiled.json: no {contract}"));
    format!("0x{}{}", code.trim_start_matches("0x"), encoded(arguments))
}

/// The calldata of a function with this selector.
pub fn calldata(selector: &str, arguments: &[Argument]) -> String {
    format!("0x{selector}{}", encoded(arguments))
}

fn is_zero(word: &str) -> bool {
    word.bytes().all(|digit| digit == b'0')
}

fn account(address: &str) -> Argument {
    Argument::Account(address.to_owned())
}

/// An owner of contracts on the base chain.
#[derive(Debug)]
pub struct MicroChainOwner<'a> {
    node: &'a Caller,
    account: String,
    /// The address that is paid for relaying.
    via: String,
}

/// A flush, as the chain base has it (docs/microchain-contracts.md, 4.4).
#[derive(Clone, Debug)]
pub struct FlushRecord {
    /// The first block of the MicroChain in it.
    pub start: u128,
    /// The last one.
    pub end: u128,
    /// The reward of each member, in sha.
    pub distribution: Vec<u128>,
    /// The places of those who voted for it.
    pub voters: Vec<u128>,
    /// The places of members that were reported.
    pub bad_actors: Vec<u128>,
    /// The members when it was proposed, in lower case.
    pub members: Vec<String>,
}

/// The pools that SCSs and VNODEs register with.
#[derive(Clone, Debug)]
pub struct Pools {
    /// The pool of SCSs.
    pub scs: String,
    vnodes: String,
}

impl<'a> MicroChainOwner<'a> {
    /// The second account of a development node is the owner. The first one is paid for blocks.
    #[track_caller]
    pub fn new(node: &'a Caller, via: &str) -> Self {
        Self::of_account(node, via, 1)
    }

    /// The same for another account of the node.
    #[track_caller]
    pub fn of_account(node: &'a Caller, via: &str, index: usize) -> Self {
        let account = node.accounts()[index].clone();
        Self {
            node,
            account,
            via: via.to_owned(),
        }
    }

    /// The owner's address.
    pub fn address(&self) -> &str {
        &self.account
    }

    fn submit(&self, to: Option<&str>, value: u128, data: &str, gas: u64) -> String {
        let mut transaction = json!({
            "from": self.account, "value": to_quantity(value), "data": data, "gas": to_quantity(gas.into()),
            "gasPrice": to_quantity(GAS_PRICE.into()),
        });
        if let Some(to) = to {
            transaction["to"] = json!(to);
        }
        self.node.send(transaction)
    }

    /// Waits until the transaction is in a block, and did not fail. Returns its receipt.
    #[track_caller]
    fn done(&self, hash: &str) -> Value {
        let receipt = wait_within(BLOCKS_PATIENCE, "a receipt on the base chain", || {
            let receipt = self.node.rpc("mc_getTransactionReceipt", json!([hash]));
            (!receipt.is_null()).then_some(receipt)
        });
        assert_eq!(receipt["status"], "0x1", "{receipt}");
        receipt
    }

    #[track_caller]
    fn all_done(&self, hashes: &[String]) {
        for hash in hashes {
            self.done(hash);
        }
    }

    #[track_caller]
    fn created(&self, hash: &str) -> String {
        let receipt = self.done(hash);
        let address = receipt["contractAddress"].as_str();
        address.expect("a contract was created").to_lowercase()
    }

    /// Creates a contract and waits for it.
    #[track_caller]
    pub fn create(&self, contract: &str, arguments: &[Argument]) -> String {
        self.create_from(&creation(contract, arguments))
    }

    /// The same for any code.
    #[track_caller]
    pub fn create_from(&self, code: &str) -> String {
        self.created(&self.submit(None, 0, code, CREATE_GAS))
    }

    /// Calls a function of a contract, and waits until it is done.
    #[track_caller]
    pub fn transact(&self, to: &str, selector: &str, arguments: &[Argument], value: u128) -> Value {
        self.done(&self.submit(Some(to), value, &calldata(selector, arguments), CALL_GAS))
    }

    /// Gives an account so many sha, and waits until it has them.
    #[track_caller]
    pub fn give(&self, to: &str, value: u128) {
        self.done(&self.submit(Some(to), value, "0x", 21_000));
    }

    /// The word that a function answers with, as digits without 0x.
    #[track_caller]
    pub fn word(&self, contract: &str, selector: &str) -> String {
        let call = json!([{"to": contract, "data": format!("0x{selector}")}, "latest"]);
        let answer = self.node.rpc("mc_call", call);
        let text = answer.as_str().unwrap_or_default().trim_start_matches("0x");
        text.get(..64).unwrap_or_default().to_owned()
    }

    /// The number that a function answers with.
    #[track_caller]
    pub fn number(&self, contract: &str, selector: &str) -> u128 {
        u128::from_str_radix(&self.word(contract, selector), 16).expect("a number")
    }

    /// The number that a function answers with for an account.
    #[track_caller]
    pub fn number_of(&self, contract: &str, selector: &str, of: &str) -> u128 {
        self.number(contract, &format!("{selector}{}", encoded(&[account(of)])))
    }

    /// Creates the pools, registers the SCSs with ten coins more than a chain locks for each of
    /// `chains`, and gives each five coins for gas.
    #[track_caller]
    pub fn pools(&self, service: &str, servers: &[&Scs], chains: usize) -> Pools {
        let ids: Vec<_> = servers.iter().map(|server| (server.id(), 5 * COIN)).collect();
        self.pools_of(service, &ids, chains)
    }

    /// The same for SCSs with these ids, each with so many sha for gas.
    #[track_caller]
    pub fn pools_of(&self, service: &str, servers: &[(&str, u128)], chains: usize) -> Pools {
        let text = |text: &str| Argument::Text(text.to_owned());
        let pool = [text("POR"), Argument::Number(10), Argument::Number(0)];
        let scs = self.create("ScsPool", &pool);
        let vnodes = self.create("VnodePool", &[Argument::Number(1)]);
        let proxy = [account(&self.via), account(&self.via), text(service), text("")];
        self.done(&self.submit(Some(&vnodes), COIN, &calldata("676bea67", &proxy), CALL_GAS));
        let pools = Pools { scs, vnodes };
        self.register(&pools, servers, chains);
        pools
    }

    /// Registers SCSs with a pool, and waits until they may join MicroChains.
    #[track_caller]
    pub fn register(&self, pools: &Pools, servers: &[(&str, u128)], chains: usize) {
        let mut hashes = Vec::new();
        for (id, gas) in servers {
            let bond = (10 + chains as u128) * COIN;
            hashes.push(self.submit(Some(id), *gas, "0x", 21_000));
            let register = calldata("4420e486", &[account(id)]);
            hashes.push(self.submit(Some(&pools.scs), bond, &register, CALL_GAS));
        }
        self.all_done(&hashes);
        // An SCS counts from the sixth block after its registration on.
        let head = self.node.head();
        wait_within(BLOCKS_PATIENCE, "six blocks", || {
            (self.node.head() > head + 6).then_some(())
        });
    }

    /// Makes this many MicroChains with at least `members` members, and waits until they have
    /// started. Returns their addresses.
    #[track_caller]
    pub fn chains(&self, pools: &Pools, members: usize, count: usize) -> Vec<String> {
        let all = self.chain_bases(pools, members, count);
        self.open(&all, members);
        all
    }

    /// Creates this many chain bases for at least `members` members. Their registration is not
    /// open. Returns their addresses.
    #[track_caller]
    pub fn chain_bases(&self, pools: &Pools, members: usize, count: usize) -> Vec<String> {
        let number = |number: usize| Argument::Number(number as u128);
        let arguments = [
            account(&pools.scs),
            account(&pools.vnodes),
            number(members),
            number(11),
            number(1000),
            Argument::Number(ROUND),
            Argument::Number(SUPPLY),
            Argument::Number(RATE),
        ];
        let code = creation("ChainBase", &arguments);
        let all: Vec<_> = (0..count)
            .map(|_| self.submit(None, 0, &code, CREATE_GAS))
            .collect();
        all.iter().map(|hash| self.created(hash)).collect()
    }

    /// Makes a MicroChain whose tokens are bought with this ERC-20 token, `rate` for one, and waits
    /// until it has started. Returns its address.
    #[track_caller]
    pub fn token_chain(&self, pools: &Pools, token: &str, rate: u128, members: usize) -> String {
        let arguments = [
            account(&pools.scs),
            account(&pools.vnodes),
            account(token),
            Argument::Number(rate),
            Argument::Number(members as u128),
            Argument::Number(11),
            Argument::Number(1000),
            Argument::Number(ROUND),
        ];
        let chain = self.create("TokenChainBase", &arguments);
        self.open(std::slice::from_ref(&chain), members);
        chain
    }

    /// Pays for rewards, opens the registration, and closes it when each chain has its members.
    #[track_caller]
    pub fn open(&self, chains: &[String], members: usize) {
        self.open_registration(chains);
        for chain in chains {
            self.wait_for_members(chain, members);
        }
        self.close_registration(chains);
    }

    /// Pays for rewards, and opens the registration.
    #[track_caller]
    pub fn open_registration(&self, chains: &[String]) {
        let opened = chains.iter().map(|chain| {
            self.submit(Some(chain), 20 * COIN, "0xa2f09dfa", CALL_GAS);
            self.submit(Some(chain), 0, "0x5defc56c", CALL_GAS)
        });
        let opened: Vec<_> = opened.collect();
        self.all_done(&opened);
    }

    /// The number of members of a MicroChain.
    #[track_caller]
    pub fn members(&self, chain: &str) -> u128 {
        self.number(chain, "6da49b83")
    }

    /// Waits until a MicroChain has this many members.
    #[track_caller]
    pub fn wait_for_members(&self, chain: &str, members: usize) {
        wait_within(BLOCKS_PATIENCE, "members that join", || {
            (self.members(chain) >= members as u128).then_some(())
        });
    }

    /// Closes the registration, so that the MicroChains start.
    #[track_caller]
    pub fn close_registration(&self, chains: &[String]) {
        let closed = chains
            .iter()
            .map(|chain| self.submit(Some(chain), 0, "0x69f3576f", CALL_GAS));
        let closed: Vec<_> = closed.collect();
        self.all_done(&closed);
    }

    /// Sends a transaction of a MicroChain with this sharding flag and nonce. Returns its hash.
    #[track_caller]
    pub fn send_to_chain(&self, chain: &str, nonce: u64, flag: u64, value: u128, data: &str) -> String {
        let transaction = json!({
            "from": self.account, "to": chain, "nonce": to_quantity(nonce.into()), "gas": "0x0",
            "gasPrice": "0x0", "shardingFlag": to_quantity(flag.into()), "via": self.via, "data": data,
            "value": to_quantity(value),
        });
        let hash = self.node.rpc("mc_sendTransaction", json!([transaction]));
        crate::data(&hash, 32).to_owned()
    }

    /// The hash of the last flush; `None` if there was none.
    #[track_caller]
    pub fn flush_hash(&self, chain: &str) -> Option<String> {
        Some(self.word(chain, "db22ccad")).filter(|hash| !is_zero(hash))
    }

    /// Waits for a flush after the one with this hash. Returns its hash.
    #[track_caller]
    pub fn flush_after(&self, chain: &str, before: &str) -> String {
        wait_within(BLOCKS_PATIENCE, "a flush", || {
            self.flush_hash(chain).filter(|hash| hash != before)
        })
    }

    /// Waits until a proposal for a flush is in progress.
    #[track_caller]
    pub fn proposal(&self, chain: &str) -> String {
        wait_within(BLOCKS_PATIENCE, "a proposal", || {
            let hash = self.word(chain, "ca3b852f");
            (!is_zero(&hash)).then_some(hash)
        })
    }

    /// The last flush, as a chain base reports it.
    ///
    /// # Panics
    /// If the answer is no proposal.
    #[track_caller]
    pub fn last_flush(&self, chain: &str) -> FlushRecord {
        // getProposal(2)
        let data = calldata("c7f758a8", &[Argument::Number(2)]);
        let answer = self
            .node
            .rpc("mc_call", json!([{"to": chain, "data": data}, "latest"]));
        let digits = answer.as_str().unwrap_or_default().trim_start_matches("0x");
        // The fields stand behind the place of the tuple.
        let word = |at: usize| digits.get(64 + 64 * at..128 + 64 * at).expect("a proposal");
        let number = |at: usize| u128::from_str_radix(word(at), 16).expect("a number");
        let list = |field: usize| -> Vec<usize> {
            let at = usize::try_from(number(field) / 32).expect("short");
            (at + 1..=at + number(at) as usize).collect()
        };
        let numbers = |field| list(field).into_iter().map(number).collect();
        FlushRecord {
            start: number(3),
            end: number(4),
            distribution: numbers(5),
            voters: numbers(8),
            bad_actors: numbers(10),
            members: list(15)
                .into_iter()
                .map(|at| format!("0x{}", &word(at)[24..]))
                .collect(),
        }
    }

    /// Creates `DappBase` and a counter on a MicroChain, and registers the counter. Returns the
    /// counter's address. The owner's next nonce there is 3.
    #[track_caller]
    pub fn dapps(&self, chain: &str, server: &Scs) -> String {
        let name = [Argument::Text("TEST".to_owned()), Argument::Number(1)];
        let supply = self.number(chain, "15e9977e");
        let dapp_base = self.send_to_chain(chain, 0, 3, supply, &creation("DappBase", &name));
        let counter = self.send_to_chain(chain, 1, 3, 0, &creation("Counter", &[]));
        let dapp_base = created_on(server, chain, &dapp_base);
        let counter = created_on(server, chain, &counter);
        let text = Argument::Text("[]".to_owned());
        let register = calldata("b5560a14", &[account(&counter), account(&self.account), text]);
        let register = format!("{dapp_base}{}", register.trim_start_matches("0x"));
        let register = self.send_to_chain(chain, 2, 1, 0, &register);
        works(server, chain, &register);
        counter
    }
}

/// Data of a call that counts `steps` up.
pub fn counting(counter: &str, steps: u128) -> String {
    // count(uint256)
    let call = calldata("3b3546c8", &[Argument::Number(steps)]);
    format!("{counter}{}", call.trim_start_matches("0x"))
}

/// The count of a counter at the head of an SCS.
///
/// # Panics
/// If the answer is no word.
#[track_caller]
pub fn counted(server: &Scs, chain: &str, counter: &str) -> u128 {
    // total()
    let call = json!([{"to": chain, "dappAddr": counter, "data": "0x2ddbd13a"}]);
    let answer = server.rpc("scs_directCall", call);
    let digits = answer.as_str().and_then(|word| word.strip_prefix("0x"));
    let count = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
    count.unwrap_or_else(|| panic!("total: got {answer}, expected a word"))
}

/// The height of a MicroChain on an SCS.
#[track_caller]
pub fn height(server: &Scs, chain: &str) -> u128 {
    quantity(&server.rpc("scs_getBlockNumber", json!([chain])))
}

/// Waits until a MicroChain has so many blocks more on an SCS.
#[track_caller]
pub fn wait_for_blocks(server: &Scs, chain: &str, count: u128) {
    let from = height(server, chain);
    wait_within(BLOCKS_PATIENCE, "blocks of the MicroChain", || {
        (height(server, chain) >= from + count).then_some(())
    });
}

/// Waits until all SCSs have the same block at the present height of the first one.
#[track_caller]
pub fn wait_for_agreement(servers: &[&Scs], chain: &str) {
    let number = height(servers[0], chain);
    wait_within(BLOCKS_PATIENCE, "the same block everywhere", || {
        let block = |server: &&Scs| server.rpc("scs_getBlock", json!([chain, to_quantity(number)]));
        let hashes: Vec<_> = servers
            .iter()
            .map(|server| block(server)["hash"].clone())
            .collect();
        (!hashes[0].is_null() && hashes.iter().all(|hash| *hash == hashes[0])).then_some(())
    });
}

/// Waits for the receipt of a transaction of a MicroChain. The transaction may have failed.
#[track_caller]
pub fn receipt_of(server: &Scs, chain: &str, hash: &str) -> Value {
    wait_within(BLOCKS_PATIENCE, "a receipt on the MicroChain", || {
        let receipt = server.rpc("scs_getReceiptByHash", json!([chain, hash]));
        (!receipt.is_null()).then_some(receipt)
    })
}

/// Waits for the receipt of a transaction of a MicroChain, which must not have failed.
#[track_caller]
pub fn works(server: &Scs, chain: &str, hash: &str) -> Value {
    let receipt = receipt_of(server, chain, hash);
    assert_eq!(receipt["failed"], false, "{receipt}");
    receipt
}

#[track_caller]
fn created_on(server: &Scs, chain: &str, hash: &str) -> String {
    let receipt = works(server, chain, hash);
    let address = receipt["contractAddress"].as_str();
    address.expect("a contract was created").to_lowercase()
}
