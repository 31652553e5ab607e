//! A node in memory, the service on a free port, and a client that speaks messages.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use primitives::{Address, B256, Header, U256};
use scs_service::message::payload::{Handshake, decode_text};
use scs_service::proto::{ScsPushMsg, ServiceReply};
use scs_service::vnode::{
    AcceptedTransaction, BlockNotices, ContractView, DirectCall, HostAccount, HostContract, HostError,
    HostNotice, RoleAnswer, ScsHost, ScsRole, ScsServer, ScsService, ServiceConfig,
};
use scs_service::{MessageKind, ScsId, ScsMessage, WireAddress, WitnessWish};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// Longest wait for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Wait for something that must not happen.
pub(crate) const QUIET: Duration = Duration::from_millis(300);
/// The time that the node needs for a slow transaction.
pub(crate) const SLOW: Duration = Duration::from_secs(4);
/// The chain id of the node.
pub(crate) const CHAIN_ID: u64 = 101;
/// The address that is paid for relaying.
pub(crate) const PROXY: Address = Address::repeat_byte(0x71);
/// The MicroChain of most tests.
pub(crate) const CHAIN: Address = Address::repeat_byte(0xc0);

pub(crate) const fn id(mark: u8) -> ScsId {
    ScsId(Address::repeat_byte(mark))
}

/// The id of the node, as long as a real one.
pub(crate) fn node_id() -> String {
    "ab".repeat(64)
}

/// The chain of a node in memory.
#[derive(Default)]
pub(crate) struct HostState {
    pub(crate) roles: HashMap<(Address, ScsId), RoleAnswer>,
    /// The number of times that a role was read.
    pub(crate) role_reads: usize,
    /// Hash and notices of each block, from block 0 on.
    pub(crate) blocks: Vec<BlockNotices>,
    pub(crate) contracts: HashMap<Address, (HostContract, BTreeMap<U256, U256>)>,
    pub(crate) submitted: Vec<Bytes>,
    pub(crate) relayed: Vec<(ScsPushMsg, B256)>,
    pub(crate) relayed_calls: Vec<DirectCall>,
    pub(crate) has_no_micro_chains: bool,
    pub(crate) is_not_ready: bool,
}

/// A node in memory.
#[derive(Default)]
pub(crate) struct TestHost(pub(crate) Mutex<HostState>);

struct TestContract(HostContract, BTreeMap<U256, U256>);

impl ContractView for TestContract {
    fn contract(&self) -> &HostContract {
        &self.0
    }

    fn slot(&self, slot: &U256) -> Result<U256, HostError> {
        Ok(self.1.get(slot).copied().unwrap_or_default())
    }

    fn visit_slots(&self, visit: &mut dyn FnMut(Option<U256>, U256) -> bool) -> Result<(), HostError> {
        let _ = self.1.iter().all(|(slot, value)| visit(Some(*slot), *value));
        Ok(())
    }
}

/// The transaction that [`TestHost::submit`] takes for a MicroChain: these bytes and its number.
pub(crate) const FOR_CHAIN: &[u8] = b"for chain ";

impl ScsHost for TestHost {
    fn chain_id(&self) -> u64 {
        CHAIN_ID
    }

    fn is_ready(&self) -> bool {
        !self.0.lock().is_not_ready
    }

    fn has_micro_chains(&self) -> bool {
        !self.0.lock().has_no_micro_chains
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError> {
        let state = self.0.lock();
        Ok(state.blocks.get(number as usize).map(|block| block.hash))
    }

    fn notices(&self, number: u64) -> Result<Option<BlockNotices>, HostError> {
        Ok(self.0.lock().blocks.get(number as usize).cloned())
    }

    fn role(&self, chain: &Address, id: &ScsId) -> Result<RoleAnswer, HostError> {
        let state = &mut *self.0.lock();
        state.role_reads += 1;
        let role = state.roles.get(&(*chain, *id)).copied();
        Ok(role.unwrap_or(RoleAnswer::Role(ScsRole::None)))
    }

    fn account(&self, address: &Address) -> Result<HostAccount, HostError> {
        let state = self.0.lock();
        Ok(state
            .contracts
            .get(address)
            .map_or_else(HostAccount::default, |(contract, _)| HostAccount {
                balance: contract.balance,
                tx_nonce: contract.tx_nonce,
                code_hash: contract.code_hash,
            }))
    }

    fn contract(&self, address: &Address) -> Result<Option<Box<dyn ContractView + '_>>, HostError> {
        let found = self.0.lock().contracts.get(address).cloned();
        Ok(found.map(|(contract, slots)| Box::new(TestContract(contract, slots)) as Box<dyn ContractView>))
    }

    fn call(
        &self,
        contract: Option<&Address>,
        input: primitives::Bytes,
    ) -> Result<primitives::Bytes, HostError> {
        match &input[..] {
            b"slow" => Err(HostError::TooMuch("too slow".to_owned())),
            b"long" => Ok(vec![0; 5 << 20].into()),
            _ => {
                let contract = contract.map_or(&b"code:"[..], |contract| contract.as_slice());
                Ok([contract, &input].concat().into())
            }
        }
    }

    fn headers(&self, number: u64, count: u64) -> Result<Vec<Header>, HostError> {
        let blocks = self.0.lock().blocks.len() as u64;
        let numbers = number..blocks.min(number + count);
        Ok(numbers
            .map(|number| Header {
                number,
                ..Header::default()
            })
            .collect())
    }

    fn witness(&self, wish: &WitnessWish) -> Result<Option<primitives::Bytes>, HostError> {
        let is_known = self.canonical_hash(wish.number)? == Some(wish.hash);
        Ok(is_known.then(|| {
            [
                wish.contract.as_slice(),
                wish.input.as_ref().map_or(&[][..], |input| &input[..]),
            ]
            .concat()
            .into()
        }))
    }

    fn submit(&self, raw: &[u8]) -> Result<AcceptedTransaction, HostError> {
        if raw == b"bad" {
            return Err(HostError::Refused("nonce too low".to_owned()));
        }
        if raw == b"slow" {
            std::thread::sleep(SLOW);
        }
        if raw.starts_with(FOR_CHAIN) {
            return Ok(AcceptedTransaction::ForChain(call(raw)));
        }
        self.0.lock().submitted.push(Bytes::copy_from_slice(raw));
        Ok(AcceptedTransaction::Pooled)
    }

    fn relay_broadcast(&self, message: &ScsPushMsg, hash: &B256) {
        self.0.lock().relayed.push((message.clone(), *hash));
    }

    fn relay_call(&self, call: &DirectCall) {
        self.0.lock().relayed_calls.push(call.clone());
    }
}

/// A transaction of [`CHAIN`] whose RLP are these bytes.
pub(crate) fn call(rlp: &[u8]) -> DirectCall {
    DirectCall {
        hash: primitives::keccak256(rlp),
        sender: Address::repeat_byte(0x5e),
        chain: CHAIN,
        rlp: primitives::Bytes::copy_from_slice(rlp),
    }
}

/// The service on a free port.
pub(crate) struct Setup {
    pub(crate) host: Arc<TestHost>,
    pub(crate) heads: watch::Sender<u64>,
    pub(crate) server: ScsServer,
}

impl Setup {
    pub(crate) async fn start() -> Self {
        Self::with(|_| ()).await
    }

    /// The service with changed settings.
    pub(crate) async fn with(change: impl FnOnce(&mut ServiceConfig)) -> Self {
        let mut config = ServiceConfig {
            node_id: node_id(),
            beneficiary: Some(PROXY),
            ..ServiceConfig::default()
        };
        change(&mut config);
        let host = Arc::new(TestHost::default());
        let (heads, followed) = watch::channel(0);
        let served = ScsServer::start("127.0.0.1:0", None, config, host.clone(), followed).await;
        let setup = Self {
            host,
            heads,
            server: served.expect("a free port"),
        };
        setup.add_block(1, &[]);
        setup
    }

    pub(crate) const fn service(&self) -> &ScsService {
        self.server.service()
    }

    pub(crate) fn address(&self) -> String {
        self.server.address().to_string()
    }

    pub(crate) fn set_role(&self, chain: Address, id: ScsId, role: ScsRole) {
        let answer = RoleAnswer::Role(role);
        self.host.0.lock().roles.insert((chain, id), answer);
    }

    /// Adds a block with these notices: contract and status. `mark` makes its hash.
    pub(crate) fn add_block(&self, mark: u8, notices: &[(Address, u8)]) {
        let state = &mut *self.host.0.lock();
        let notice = |(index, (caller, status)): (usize, &(Address, u8))| HostNotice {
            transaction: B256::with_last_byte(mark.wrapping_add(index as u8)),
            caller: *caller,
            input: primitives::Bytes::copy_from_slice(B256::with_last_byte(*status).as_slice()),
        };
        state.blocks.push(BlockNotices {
            hash: B256::repeat_byte(mark),
            notices: notices.iter().enumerate().map(notice).collect(),
        });
        self.heads.send_replace(state.blocks.len() as u64 - 1);
    }

    pub(crate) async fn connect(&self) -> TestClient {
        TestClient::connect(&self.address()).await.expect("a connection")
    }

    /// A stream of an SCS that has shaken hands.
    pub(crate) async fn scs(&self, id: ScsId) -> TestStream {
        let mut stream = self.connect().await.stream().await;
        assert_eq!(stream.shake_hands(id).await, "shakereply");
        stream
    }
}

/// The sending half of a connection, as tonic wants it.
#[derive(Clone)]
pub(crate) struct Sender(http2::SendRequest<Body>);

impl tower_service::Service<http::Request<Body>> for Sender {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// A connection of a client that is not the one of the package.
#[derive(Clone)]
pub(crate) struct TestClient {
    grpc: Grpc<Sender>,
}

impl TestClient {
    pub(crate) async fn connect(address: &str) -> Result<Self, hyper::Error> {
        let builder = http2::Builder::new(TokioExecutor::new());
        Self::connect_by(builder, address).await
    }

    /// A client that lets `window` bytes of an answer through before it has read them.
    pub(crate) async fn connect_with_window(address: &str, window: u32) -> Result<Self, hyper::Error> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        Self::connect_by(builder, address).await
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) {
        let ended = async {
            while self.grpc.clone().ready().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, ended).await;
        ended.expect("the connection ends");
    }

    async fn connect_by(builder: http2::Builder<TokioExecutor>, address: &str) -> Result<Self, hyper::Error> {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let origin = format!("http://{address}").parse().expect("a URL");
        Ok(Self {
            grpc: Grpc::with_origin(Sender(sender), origin).max_decoding_message_size(64 << 20),
        })
    }

    pub(crate) async fn try_stream(&self) -> Result<TestStream, Status> {
        Ok(self.open_stream(false).await?.0)
    }

    /// A stream of a client that proves its id, and the challenge.
    pub(crate) async fn proving_stream(&self) -> (TestStream, B256) {
        let (stream, headers) = self.open_stream(true).await.expect("a stream");
        let digits = headers.get("scs-challenge").expect("a challenge");
        let challenge = digits.to_str().expect("digits").parse();
        (stream, challenge.expect("a challenge"))
    }

    async fn open_stream(&self, can_prove: bool) -> Result<(TestStream, MetadataMap), Status> {
        let (outgoing, messages) = mpsc::channel(1000);
        let mut grpc = self.grpc.clone();
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static("/moac.Vnode/ScsPush");
        let codec = ProstCodec::<ScsPushMsg, ScsPushMsg>::default();
        let mut request = Request::new(Outgoing(messages));
        if can_prove {
            let yes = MetadataValue::from_static("1");
            request.metadata_mut().insert("scs-can-prove", yes);
        }
        let opened = grpc.streaming(request, path, codec).await?;
        let headers = opened.metadata().clone();
        let stream = TestStream {
            outgoing: Some(outgoing),
            incoming: opened.into_inner(),
        };
        Ok((stream, headers))
    }

    pub(crate) async fn stream(&self) -> TestStream {
        self.try_stream().await.expect("a stream")
    }

    pub(crate) async fn call<M: prost::Message + 'static>(
        &self,
        method: &'static str,
        request: M,
    ) -> Result<ServiceReply, Status> {
        let mut grpc = self.grpc.clone();
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(method);
        let codec = ProstCodec::<M, ServiceReply>::default();
        Ok(grpc.unary(Request::new(request), path, codec).await?.into_inner())
    }

    /// As [`Self::call`], and the answer is not read before the caller does so.
    pub(crate) async fn call_unread<M: prost::Message + 'static>(
        &self,
        method: &'static str,
        request: M,
    ) -> Result<Streaming<ServiceReply>, Status> {
        let mut grpc = self.grpc.clone();
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(method);
        let codec = ProstCodec::<M, ServiceReply>::default();
        let answer = grpc.server_streaming(Request::new(request), path, codec);
        Ok(answer.await?.into_inner())
    }
}

struct Outgoing(mpsc::Receiver<ScsPushMsg>);

impl tokio_stream::Stream for Outgoing {
    type Item = ScsPushMsg;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ScsPushMsg>> {
        self.0.poll_recv(context)
    }
}

/// Both halves of a stream.
pub(crate) struct TestStream {
    /// `None` after the client has ended its half.
    pub(crate) outgoing: Option<mpsc::Sender<ScsPushMsg>>,
    pub(crate) incoming: Streaming<ScsPushMsg>,
}

impl TestStream {
    pub(crate) async fn send(&self, message: ScsPushMsg) {
        let outgoing = self.outgoing.as_ref().expect("not ended");
        outgoing.send(message).await.expect("the stream is open");
    }

    /// The next message or the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<ScsPushMsg>, Status> {
        let next = tokio::time::timeout(PATIENCE, self.incoming.message());
        next.await.expect("something comes")
    }

    /// The next message that is no ping.
    pub(crate) async fn message(&mut self) -> ScsMessage {
        loop {
            let wire = self.next().await.expect("no error").expect("a message");
            let message = ScsMessage::decode(&wire).expect("well formed");
            if !matches!(message.kind, MessageKind::Ping { .. }) {
                return message;
            }
        }
    }

    /// The error that the stream ends with.
    pub(crate) async fn error(&mut self) -> Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended without an error"),
                Err(status) => return status,
            }
        }
    }

    /// Checks that nothing but pings comes for a moment.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(QUIET, self.message()).await.is_err()
    }

    /// Shakes hands. Returns the text of the answer.
    pub(crate) async fn shake_hands(&mut self, id: ScsId) -> String {
        self.send(handshake(id)).await;
        let answer = self.message().await;
        decode_text(&answer.payload).expect("a text")
    }
}

/// A good handshake.
pub(crate) fn handshake(id: ScsId) -> ScsPushMsg {
    let payload = Handshake {
        operation: "join".to_owned(),
        public_key: String::new(),
        capability: 10,
        chain_id: CHAIN_ID,
    };
    ScsMessage {
        request_id: Bytes::from_static(b"hello"),
        timestamp: Some(1),
        is_request: true,
        kind: MessageKind::ShakeHand { status: 7 },
        scs_id: id.to_wire(),
        chain: None,
        sender: None,
        receiver: None,
        payload: payload.encode(),
    }
    .encode()
}

/// A message for [`CHAIN`], as an SCS sends it. `number` makes it unique.
pub(crate) fn message(kind: i32, status: i32, author: ScsId, number: usize) -> ScsMessage {
    ScsMessage {
        request_id: format!("{author}-{number}").into(),
        timestamp: Some(1),
        is_request: true,
        kind: MessageKind::new(kind, status),
        scs_id: author.to_wire(),
        chain: Some(WireAddress::rlp(CHAIN)),
        sender: Some(WireAddress::raw(author.0)),
        receiver: None,
        payload: format!("content {number}").into(),
    }
}

/// Waits until `condition` holds.
pub(crate) async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(
        tokio::time::timeout(PATIENCE, waiting).await.is_ok(),
        "waited for {what}"
    );
}
