//! A real chain in memory behind the real HTTP server, and a client that speaks bytes.
//!
//! Blocks are built from the pool and imported with a timestamp one after their parent's, so that
//! no test waits for the clock. Seals are not checked.

use std::net::SocketAddr;
use std::sync::Arc;

use chain::import::Imported;
use chain::mining::build::{BuildSettings, build};
use chain::pool::{LocalAccounts, PoolConfig};
use chain::rules::seal::SealCheck;
use chain::spec::{ChainFamily, RuleTable};
use chain::{Chain, ChainConfig, ChainSpec, View};
use history::AddressIndex;
use keystore::{AccountManager, KeyDirectory, ScryptCost};
use primitives::{Address, B256, Block, Bytes, SecretKey, U256, UnsignedTransaction};
use rpc::methods;
use rpc::node_servers;
use rpc::server::TcpServer;
use rpc::server::http::HttpOptions;
use rpc::server::ws::WsOptions;
use rpc::types::data;
use rpc::{FilterLimits, Limits, Method, Modules, Node, NodeSettings, Rpc, VnodeSettings};
use serde_json::{Value, json};
use store::Store;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::mc::controls::{Listener, Miner, Network, ScsService};
use crate::shared::facts::TestFacts;
use crate::shared::{http_client, small_stack};

/// The account that is paid for blocks.
pub(crate) const BENEFICIARY: Address = Address::repeat_byte(0xbe);

/// The account that is paid for relaying.
pub(crate) const PROXY: Address = Address::repeat_byte(0x71);

/// The key of account `index` of the development network.
pub(crate) fn key(index: usize) -> SecretKey {
    SecretKey::from_hex(chain::spec::DEV_ACCOUNTS[index].1).expect("a key")
}

/// The address of account `index` of the development network, as DATA.
pub(crate) fn account(index: usize) -> String {
    data(key(index).address())
}

/// A transfer to account 6, for tests that sign themselves.
pub(crate) fn transfer() -> UnsignedTransaction {
    UnsignedTransaction {
        gas_price: U256::from(20_000_000_000_u64),
        gas: 21_000,
        to: Some(key(6).address()),
        value: U256::from(1),
        ..Default::default()
    }
}

/// A node that listens to no peers and has none.
const FACTS: TestFacts = TestFacts {
    is_listening: false,
    peer_count: 0,
};

pub(crate) fn in_memory() -> Store {
    Store::in_memory().expect("a store in memory")
}

/// The node under test. It holds the keys of the first three accounts of the development network.
/// The first two are unlocked, the third is locked.
pub(crate) struct Net {
    pub(crate) chain: Chain,
    /// Contains the folder of key files.
    pub(crate) home: TempDir,
    pub(crate) miner: Arc<Miner>,
    pub(crate) listener: Arc<Listener>,
    /// The WebSocket listener that methods open and close.
    pub(crate) ws_listener: Arc<Listener>,
    /// The network that methods ask.
    pub(crate) network: Arc<Network>,
    /// The service for application chains, if it runs.
    pub(crate) service: Option<Arc<ScsService>>,
    index: Option<Arc<AddressIndex>>,
    server: TcpServer,
    ws: TcpServer,
    rpc: Arc<Rpc<Node>>,
    /// Keeps the servers running.
    pub(crate) runtime: Runtime,
}

impl Net {
    pub(crate) fn start() -> Self {
        Self::with(|_| ())
    }

    /// A node with changed settings.
    pub(crate) fn with(change: impl FnOnce(&mut NodeSettings)) -> Self {
        Self::with_rows(change, methods::all())
    }

    /// A node with these method rows and changed settings.
    pub(crate) fn with_rows(change: impl FnOnce(&mut NodeSettings), rows: Vec<Method<Node>>) -> Self {
        let service = Some(Arc::default());
        let limits = (Limits::default(), FilterLimits::default());
        Self::start_as(in_memory(), change, rows, limits, service)
    }

    /// A node with an index by address, which nobody builds yet.
    pub(crate) fn indexed() -> Self {
        let limits = (Limits::default(), FilterLimits::default());
        let service = Some(Arc::default());
        Self::start_of(
            ChainSpec::dev(),
            in_memory(),
            |_| (),
            methods::all(),
            limits,
            service,
            true,
        )
    }

    /// The index by address of [`Net::indexed`].
    pub(crate) fn index(&self) -> Arc<AddressIndex> {
        self.index.clone().expect("a node with an index")
    }

    /// A node whose service for application chains does not run, with changed settings.
    pub(crate) fn without_service(change: impl FnOnce(&mut NodeSettings)) -> Self {
        let limits = (Limits::default(), FilterLimits::default());
        Self::start_as(in_memory(), change, methods::all(), limits, None)
    }

    /// A node with these bounds.
    pub(crate) fn start_with(limits: Limits, filter_limits: FilterLimits) -> Self {
        let limits = (limits, filter_limits);
        Self::start_as(in_memory(), |_| (), methods::all(), limits, Some(Arc::default()))
    }

    /// A node whose chain is in this store.
    pub(crate) fn on(store: Store) -> Self {
        let limits = (Limits::default(), FilterLimits::default());
        Self::start_as(store, |_| (), methods::all(), limits, Some(Arc::default()))
    }

    /// A node of a chain of Ethereum's family with the accounts of the development network, the id
    /// 61, and Berlin from block `berlin` on.
    pub(crate) fn of_ethereums_family(berlin: u64) -> Self {
        let spec = ChainSpec {
            chain_id: 61,
            family: ChainFamily::Ethereum,
            rules: RuleTable::up_to("MuirGlacier")
                .expect("a fork")
                .with_fork("Berlin", berlin),
            failed_calls_refund_gas: false,
            system_contract: false,
            notify_scs_always_exists: false,
            ..ChainSpec::dev()
        };
        Self::of_spec(spec, in_memory())
    }

    /// A node whose store has this chain, without a service for application chains.
    pub(crate) fn of_spec(spec: ChainSpec, store: Store) -> Self {
        let limits = (Limits::default(), FilterLimits::default());
        Self::start_of(spec, store, |_| (), methods::all(), limits, None, false)
    }

    fn start_as(
        store: Store,
        change: impl FnOnce(&mut NodeSettings),
        rows: Vec<Method<Node>>,
        limits: (Limits, FilterLimits),
        service: Option<Arc<ScsService>>,
    ) -> Self {
        Self::start_of(ChainSpec::dev(), store, change, rows, limits, service, false)
    }

    fn start_of(
        spec: ChainSpec,
        store: Store,
        change: impl FnOnce(&mut NodeSettings),
        rows: Vec<Method<Node>>,
        (limits, filter_limits): (Limits, FilterLimits),
        service: Option<Arc<ScsService>>,
        is_indexed: bool,
    ) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let key_files = KeyDirectory::new(home.path().join("keystore"), ScryptCost::LIGHT);
        let accounts = AccountManager::with_directory(key_files);
        for index in 0..3 {
            accounts.add_unlocked(key(index));
        }
        accounts.lock(&key(2).address());
        let own = accounts.clone();
        let config = ChainConfig {
            spec: Arc::new(spec),
            seals: SealCheck::Off,
            forks: chain::import::ForkLimits::default(),
            pool: PoolConfig {
                locals: Some(LocalAccounts::new(move |address| own.contains(address))),
                // The development network accepts every price.
                price_floor: U256::ZERO,
                ..PoolConfig::default()
            },
            beneficiary: BENEFICIARY,
            extra_data: Bytes::from_static(b"test"),
            states: chain::import::StateRetention::Archive,
        };
        let chain = Chain::open(store, config).expect("a new chain");
        let (miner, listener) = (Arc::new(Miner::default()), Arc::new(Listener::default()));
        let ws_listener = Arc::new(Listener::default());
        let network = Arc::new(Network::default());
        let mut settings = NodeSettings {
            data_directory: "/home/miner/.moac/devnet".into(),
            vnode: VnodeSettings {
                beneficial_address: Some(PROXY),
                service_port: 50062,
                show_to_public: true,
                ip: "52.1.2.3".to_owned(),
            },
            ..NodeSettings::default()
        };
        change(&mut settings);
        let limits = Limits {
            response_len_max: limits.response_len_max.min(settings.response_len_max),
            ..limits
        };
        let node = Node::new(chain.clone(), accounts, Box::new(FACTS), miner.clone())
            .expect("a thread")
            .with_filter_limits(filter_limits)
            .with_settings(settings)
            .with_listener(listener.clone())
            .with_ws_listener(ws_listener.clone())
            .with_network(network.clone());
        let node = match &service {
            Some(service) => node.with_scs_service(Arc::<ScsService>::clone(service)),
            None => node,
        };
        let index = is_indexed.then(|| {
            let genesis = chain.view().expect("a view").head_hash();
            Arc::new(AddressIndex::open(home.path(), genesis).expect("a file"))
        });
        let node = match &index {
            Some(index) => node.with_address_index(Arc::clone(index)),
            None => node,
        };
        let rpc = Rpc::new(Arc::new(node), rows, limits).expect("valid rows");
        let dispatcher = Arc::new(rpc.dispatcher(&Modules::all()));
        let runtime = small_stack::runtime();
        let options = HttpOptions {
            host: "127.0.0.1".to_owned(),
            port: 0,
            ..HttpOptions::default()
        };
        let server = runtime
            .block_on(node_servers::start_http(Arc::clone(&dispatcher), &options, None))
            .expect("a free port");
        let options = WsOptions {
            host: "127.0.0.1".to_owned(),
            port: 0,
            ..WsOptions::default()
        };
        let ws = runtime
            .block_on(node_servers::start_ws(dispatcher, &options))
            .expect("a free port");
        Self {
            chain,
            home,
            miner,
            listener,
            ws_listener,
            network,
            service,
            index,
            server,
            ws,
            rpc,
            runtime,
        }
    }

    /// The address at which WebSockets are served.
    pub(crate) fn ws_address(&self) -> SocketAddr {
        self.ws.addresses()[0]
    }

    /// The context of the methods.
    pub(crate) fn node(&self) -> &Node {
        self.rpc.context()
    }

    /// The body of the response to `method` with `params`.
    pub(crate) fn raw(&self, method: &str, params: &str) -> String {
        self.post(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#
        ))
    }

    /// The body of the response to `body`.
    pub(crate) fn post(&self, body: &str) -> String {
        http_client::post(self.server.addresses()[0], body)
    }

    /// The result of a call that must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, method: &str, params: Value) -> Value {
        let body = self.raw(method, &params.to_string());
        let mut answer: Value = serde_json::from_str(&body).expect("JSON");
        assert!(answer.get("error").is_none(), "{method} {params}: {body}");
        answer["result"].take()
    }

    /// The result of a call that must succeed, in the server's own text.
    #[track_caller]
    pub(crate) fn ok_text(&self, method: &str, params: Value) -> String {
        let body = self.raw(method, &params.to_string());
        let result = body.strip_prefix(r#"{"jsonrpc":"2.0","id":1,"result":"#);
        result
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or_else(|| panic!("{method} {params}: {body}"))
            .to_owned()
    }

    /// Code and message of a call that must fail.
    #[track_caller]
    pub(crate) fn error(&self, method: &str, params: &str) -> (i64, String) {
        let body = self.raw(method, params);
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        let error = &answer["error"];
        assert!(answer.get("result").is_none(), "{method} {params}: {body}");
        let code = error["code"].as_i64().expect("a code");
        (code, error["message"].as_str().expect("a message").to_owned())
    }

    /// Compares code and message of a call that must fail.
    #[track_caller]
    pub(crate) fn check_error(&self, method: &str, params: Value, code: i64, message: &str) {
        let got = self.error(method, &params.to_string());
        assert_eq!(got, (code, message.to_owned()), "{method} {params}");
    }

    /// Builds the block after `parent` from the pool. `extra_data` makes it differ from other
    /// blocks.
    pub(crate) fn build(&self, parent: &B256, extra_data: &'static [u8], uncles: &[&Block]) -> Block {
        let view = self.chain.view().expect("a view");
        let parent = view.header_by_hash(parent).expect("a read").expect("the parent");
        let timestamp = parent.header.timestamp.max(1_000_000) + 1;
        let settings = BuildSettings {
            extra_data: Bytes::from_static(extra_data),
            ..self.chain.settings()
        };
        let candidates: Vec<_> = uncles.iter().map(|uncle| uncle.header.clone()).collect();
        let draft = build(
            self.chain.spec(),
            view.snapshot(),
            &parent,
            timestamp,
            &settings,
            self.chain.pool().ready(),
            &candidates,
        );
        draft.expect("a block").block
    }

    /// Makes the next block from the pool and imports it.
    #[track_caller]
    pub(crate) fn mine(&self) -> Block {
        self.mine_with(&[])
    }

    /// Makes the next block with these uncles and imports it.
    #[track_caller]
    pub(crate) fn mine_with(&self, uncles: &[&Block]) -> Block {
        let head = self.view().head_hash();
        let block = self.build(&head, b"main", uncles);
        let imported = self.chain.import(block.clone()).expect("a good block");
        assert!(matches!(imported, Imported::Head { .. }), "{imported:?}");
        block
    }

    /// Makes two blocks on the head. The first becomes the head, the second is a side block.
    #[track_caller]
    pub(crate) fn mine_two(&self) -> (Block, Block) {
        let head = self.view().head_hash();
        let side = self.build(&head, b"side", &[]);
        let main = self.mine();
        assert_eq!(
            self.chain.import(side.clone()).expect("a good block"),
            Imported::Side
        );
        (main, side)
    }

    pub(crate) fn view(&self) -> View {
        self.chain.view().expect("a view")
    }

    /// Sends a transaction from account 0 and returns its hash.
    #[track_caller]
    pub(crate) fn send(&self, mut transaction: Value) -> String {
        transaction["from"] = json!(account(0));
        let hash = self.ok("mc_sendTransaction", json!([transaction]));
        hash.as_str().expect("a hash").to_owned()
    }
}

/// `value` as QUANTITY.
pub(crate) fn quantity(value: impl TryInto<U256, Error: std::fmt::Debug>) -> String {
    format!("{:#x}", value.try_into().expect("fits"))
}
