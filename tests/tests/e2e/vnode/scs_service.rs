//! The service for application chains on a real node, with the client of this workspace.

use std::path::Path;
use std::time::Duration;

use e2e::microchain::PROXY;
use e2e::{Launch, Vnode};
use primitives::{Address, B256};
use scs_service::client::{ScsClient, ScsClientConfig, ScsEvent};
use scs_service::message::ControlStatus;
use scs_service::vnode::ScsRole;
use scs_service::{ScsId, ScsMessage, WireAddress};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::Receiver;

/// A contract that answers 1 to a call with one word after the selector, as `getSCSRole` has it,
/// and calls 0x0d with every other input.
pub(crate) const CHAIN_RUNTIME: &str =
    "36602414601d5736600060003760206104003660006000600d5af150005b600160005260206000f3";
/// Code that creates the contract: it copies what follows, and returns it.
const CHAIN_CREATE: &str = "602880600b6000396000f3";
/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes the settings of the service at this address into `folder`.
fn write_settings(folder: &Path, address: &str) {
    let settings =
        json!({"SCSService": true, "VnodeServiceCfg": address, "VnodeBeneficialAddress": PROXY}).to_string();
    std::fs::write(folder.join("vnodeconfig.json"), settings).expect("a write");
}

/// A node that makes blocks and serves SCSs at this address. Its data stay in `folder`.
pub(crate) fn serving(folder: &Path, address: &str, arguments: &[&str]) -> Vnode {
    write_settings(folder, address);
    let all = ["--rpcapi", "mc,vnode,txpool,admin"].iter().chain(arguments);
    Launch::with_blocks(all.copied())
        .data(&folder.join("data"))
        .directory(folder)
        .start()
}

/// The address at which the node serves SCSs, from its banner.
pub(crate) fn service(node: &Vnode) -> String {
    let endpoints = node.banner_values("endpoint");
    let service = endpoints.iter().find_map(|value| value.strip_prefix("grpc://"));
    service.expect("the banner has the service").to_owned()
}

/// Deploys the contract. Returns its address.
pub(crate) fn deploy(node: &Vnode) -> String {
    let code = format!("0x{CHAIN_CREATE}{CHAIN_RUNTIME}");
    let request = json!({"from": node.accounts()[0], "data": code, "gas": "0x30d40"});
    let hash = node.rpc("mc_sendTransaction", json!([request]));
    let receipt = node.receipt(hash.as_str().expect("a hash"));
    assert_eq!(receipt["status"], "0x1");
    receipt["contractAddress"]
        .as_str()
        .expect("an address")
        .to_owned()
}

/// Lets the contract send a notice of this sort. Returns the hash of the transaction.
fn notify(node: &Vnode, chain: &str, status: u8) -> B256 {
    let request = json!({
        "from": node.accounts()[0], "to": chain, "data": format!("0x{status:064x}"), "gas": "0x186a0",
    });
    let hash = node.rpc("mc_sendTransaction", json!([request]));
    hash.as_str().expect("a hash").parse().expect("32 bytes")
}

/// The next event that `pick` takes.
fn next<T>(
    runtime: &Runtime,
    events: &mut Receiver<ScsEvent>,
    mut pick: impl FnMut(ScsEvent) -> Option<T>,
) -> T {
    runtime.block_on(async {
        let search = async {
            loop {
                let event = events.recv().await.expect("the client runs");
                if let Some(found) = pick(event) {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, search)
            .await
            .expect("the event comes")
    })
}

fn connected(event: ScsEvent) -> Option<Address> {
    match event {
        ScsEvent::Connected { beneficiary } => Some(beneficiary),
        _ => None,
    }
}

fn notice(event: ScsEvent) -> Option<(Address, ControlStatus, B256)> {
    match event {
        ScsEvent::Notice {
            chain,
            status,
            transaction,
        } => Some((chain, status, transaction)),
        _ => None,
    }
}

#[test]
fn an_scs_finds_its_node_again_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = serving(folder.path(), "localhost:0", &[]);
    let address = service(&node);
    let runtime = Runtime::new().expect("a runtime");
    let id = ScsId(Address::repeat_byte(0x11));
    let start = |id| {
        let _guard = runtime.enter();
        ScsClient::start(ScsClientConfig::new(address.clone(), id, 100))
    };
    let (client, mut events) = start(id);
    let proxy: Address = PROXY.parse().expect("an address");
    assert_eq!(next(&runtime, &mut events, connected), proxy);
    let chain_text = deploy(&node);
    let chain: Address = chain_text.parse().expect("an address");
    let sent = notify(&node, &chain_text, 9);
    let expected = (chain, ControlStatus::Distribute, sent);
    assert_eq!(next(&runtime, &mut events, notice), expected);

    let ended = node.end(e2e::process::EndSignal::Interrupt);
    assert!(ended.status.success(), "{}", ended.stderr);
    let lost = |event| matches!(event, ScsEvent::Disconnected { .. }).then_some(());
    next(&runtime, &mut events, lost);
    let node = serving(folder.path(), &address, &[]);
    assert_eq!(service(&node), address);
    assert_eq!(next(&runtime, &mut events, connected), proxy);
    // The notice of before the restart does not come again.
    let sent = notify(&node, &chain_text, 2);
    let expected = (chain, ControlStatus::CreateProposal, sent);
    assert_eq!(next(&runtime, &mut events, notice), expected);

    let (other, mut other_events) = start(ScsId(Address::repeat_byte(0x22)));
    next(&runtime, &mut other_events, connected);
    let broadcast = ScsMessage {
        request_id: format!("{id}-0123456789abcdef").into(),
        timestamp: None,
        is_request: true,
        kind: scs_service::MessageKind::new(2, 64),
        scs_id: id.to_wire(),
        chain: Some(WireAddress::rlp(chain)),
        sender: Some(WireAddress::raw(id.0)),
        receiver: None,
        payload: b"a block"[..].into(),
    };
    runtime.block_on(client.broadcast(&broadcast)).expect("sent");
    let heard = next(&runtime, &mut other_events, |event| match event {
        ScsEvent::Broadcast(message) => Some(message),
        _ => None,
    });
    assert_eq!(heard, broadcast);
    let role = [&[0x50, 0x85, 0x9f, 0xd9][..], id.0.into_word().as_slice()].concat();
    let role = runtime
        .block_on(other.public_call(chain, role.into()))
        .expect("an answer");
    assert_eq!(ScsRole::from_number(u64::from(role[31])), ScsRole::Consensus);
}

#[test]
fn wrong_settings_stop_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |address: &str, arguments: &[&str]| {
        write_settings(folder.path(), address);
        let ended = Launch::dev(arguments.iter().copied())
            .directory(folder.path())
            .run();
        assert!(!ended.status.success());
        ended.stderr
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let error = refused(&address, &[]);
    assert!(
        error.contains("the service for SCS servers cannot listen on"),
        "{error}"
    );
    let error = refused(
        ":0",
        &["--scs.tls.cert", "nothing.pem", "--scs.tls.key", "nothing.pem"],
    );
    assert!(error.contains("nothing.pem"), "{error}");
    let error = refused(":0", &["--scs.tls.cert", "cert.pem"]);
    assert!(error.contains("--scs.tls.key"), "{error}");
    let error = refused(":0", &["--scs.allow", "somebody"]);
    assert!(error.contains("expected an SCS id"), "{error}");
}

#[test]
fn a_list_keeps_strangers_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let allowed = ScsId(Address::repeat_byte(0x11));
    let node = serving(
        folder.path(),
        "localhost:0",
        &["--scs.allow", &allowed.to_string()],
    );
    let runtime = Runtime::new().expect("a runtime");
    let start = |mark| {
        let _guard = runtime.enter();
        let id = ScsId(Address::repeat_byte(mark));
        ScsClient::start(ScsClientConfig::new(service(&node), id, 100))
    };
    let (_stranger, mut events) = start(0x22);
    let reason = next(&runtime, &mut events, |event| match event {
        ScsEvent::Disconnected { reason } => Some(reason),
        _ => None,
    });
    assert!(reason.contains("is not allowed here"), "{reason}");
    let (client, mut events) = start(0x11);
    next(&runtime, &mut events, connected);
    let account = runtime.block_on(client.account_info(Address::repeat_byte(9)));
    assert_eq!(account.expect("an answer").code_hash, B256::ZERO);
    // The head is told, and it is the one of JSON-RPC.
    let told = next(&runtime, &mut events, |event| match event {
        ScsEvent::Head(head) => Some(head),
        _ => None,
    });
    assert!(u128::from(told) <= node.head());
}
