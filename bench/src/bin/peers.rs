//! The cost of peers for a running node: memory, descriptors and processor time, before and after.
//!
//! A witness, which is a good peer, asks for a header again and again meanwhile. It must stay
//! connected. The node must be one of the development network, and run on this machine:
//! `vnode --dev --port 30399 --maxpeers 120`. With `--attack` the program starts nodes itself, and
//! runs attacks of peers on them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bench::Failure;
use bench::attacks::{
    Attack, AttackSources, AttackTarget, BLOCK_0, PlayedNode, ProcessUse, run_all, watch_as_peer,
};
use clap::{Parser, ValueEnum};
use network::testing::{
    AnnouncedBlock, DiscoveryDialect, DiscoveryPacket, Entropy, PacketEndpoint, PacketTail, PeerMessage,
};
use network::{NodeContact, WireFamily};
use primitives::{Address, B256, Enode, Header, TxForm, U256, UnsignedTransaction};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The id of the development network.
const NETWORK_ID: u64 = 100;
/// The address of the peers.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Attackers that run side by side.
const ATTACKERS: usize = 8;
/// Length of the large messages: more than the node takes, as much as a frame takes.
const LARGE_BYTES: usize = 13 << 20;
/// Announcements in a message.
const ANNOUNCED: u64 = 1000;
/// Transactions that each attacker has, and how many of them are in a message.
const UNPAID: u64 = 5000;
const UNPAID_PACK: usize = 500;
/// Headers of a chain without seals. The node asks for 32 at once.
const UNSEALED: u64 = 30;

/// The conduct of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Conduct {
    /// Nothing: they are good peers.
    Good,
    /// Connect and say nothing.
    Silent,
    /// Connect and send random bytes, again and again.
    Junk,
    /// Make the encrypted connection and leave, again and again.
    Handshakes,
    /// Become peers and send a message that is too large, again and again.
    Frames,
    /// Become peers and announce blocks that do not exist.
    Announcements,
    /// Become peers and send transactions of accounts without money.
    Transactions,
    /// Become peers and claim a heavier chain, whose headers have no seals, again and again.
    Headers,
    /// Send packets of discovery from addresses that they do not prove.
    Discovery,
}

/// Costs of peers.
#[derive(Debug, Parser)]
struct Options {
    /// The enode URL of the node.
    #[arg(required_unless_present = "attacks")]
    node: Option<String>,
    /// The id of its process.
    #[arg(long, required_unless_present = "attacks")]
    pid: Option<u32>,
    /// The conduct of the peers.
    #[arg(long, value_enum, required_unless_present = "attacks")]
    conduct: Option<Conduct>,
    /// Run these attacks on nodes that are started for them, separated by commas; `all` of peers
    #[arg(
        long = "attack",
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with_all = ["node", "pid", "conduct"],
    )]
    attacks: Vec<String>,
    /// Time for which each attack runs [default: 3 to 15 seconds]
    #[arg(long, value_name = "S", requires = "attacks")]
    attack_seconds: Option<u64>,
    /// Connections that are held by good or silent peers.
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// The duration.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

/// Transactions of accounts without money, in packs.
fn unpaid_transactions(entropy: &mut Entropy) -> Vec<PeerMessage> {
    let key = entropy.secret_key();
    let transaction = |tx_nonce| {
        let unsigned = UnsignedTransaction {
            tx_nonce,
            gas_price: U256::from(20_000_000_000u64),
            gas: 21_000,
            to: Some(Address::repeat_byte(7)),
            value: U256::from(1),
            ..UnsignedTransaction::default()
        };
        unsigned.sign(&key, NETWORK_ID, TxForm::Native)
    };
    let all: Vec<_> = (0..UNPAID).map(transaction).collect();
    let packs = all.chunks(UNPAID_PACK);
    packs
        .map(|pack| PeerMessage::Transactions(pack.to_vec()))
        .collect()
}

/// Headers on block 0 without seals, highest first.
fn unsealed_headers(genesis: &Header) -> Vec<Header> {
    let mut headers: Vec<Header> = Vec::new();
    for number in 1..=UNSEALED {
        let parent = headers.first().unwrap_or(genesis);
        let header = Header {
            parent_hash: parent.hash(),
            number,
            timestamp: parent.timestamp + 1,
            mix_hash: B256::repeat_byte(1),
            ..genesis.clone()
        };
        headers.insert(0, header);
    }
    headers
}

/// Does what `conduct` says until `end`. Returns how often.
async fn attack(
    conduct: Conduct,
    contact: NodeContact,
    genesis: Header,
    mut entropy: Entropy,
    end: Instant,
) -> u64 {
    let mut count = 0;
    let unpaid = match conduct {
        Conduct::Transactions => unpaid_transactions(&mut entropy),
        _ => Vec::new(),
    };
    let unsealed = unsealed_headers(&genesis);
    while Instant::now() < end {
        let step = async {
            match conduct {
                Conduct::Junk => {
                    let mut bytes = vec![0; 64 << 10];
                    entropy.fill(&mut bytes);
                    let mut stream = TcpStream::connect(contact.tcp_address()).await?;
                    stream.write_all(&bytes).await?;
                }
                Conduct::Handshakes => {
                    drop(PlayedNode::dial(&contact, WireFamily::Mc, LOCAL, &mut entropy).await?)
                }
                Conduct::Frames => {
                    let mut peer = PlayedNode::join(&contact, WireFamily::Mc, LOCAL, &mut entropy).await?;
                    let mut bytes = vec![0; LARGE_BYTES];
                    entropy.fill(&mut bytes);
                    peer.connection.send(0, 2, &bytes)?;
                    while peer.next().await.is_ok() {}
                }
                Conduct::Announcements => {
                    let mut peer = PlayedNode::join(&contact, WireFamily::Mc, LOCAL, &mut entropy).await?;
                    loop {
                        let hash = |_| AnnouncedBlock {
                            hash: B256::from(entropy.bytes::<32>()),
                            number: 1,
                        };
                        let blocks = (0..ANNOUNCED).map(hash).collect();
                        peer.send(&PeerMessage::NewBlockHashes(blocks))?;
                        // The questions of the node are not answered.
                        if timeout(Duration::from_millis(5), peer.next())
                            .await
                            .is_ok_and(|next| next.is_err())
                        {
                            break;
                        }
                        count += 1;
                    }
                }
                Conduct::Transactions => {
                    let mut peer = PlayedNode::join(&contact, WireFamily::Mc, LOCAL, &mut entropy).await?;
                    for pack in &unpaid {
                        peer.send(pack)?;
                        while peer.connection.backlog() > 0 {
                            if let Ok(next) = timeout(Duration::from_millis(5), peer.next()).await {
                                next?;
                            }
                        }
                        count += 1;
                    }
                }
                Conduct::Headers => {
                    let mut peer = PlayedNode::dial(&contact, WireFamily::Mc, LOCAL, &mut entropy).await?;
                    // The node ends the connection.
                    let _ = peer.lie(&unsealed).await;
                }
                Conduct::Good | Conduct::Silent | Conduct::Discovery => {}
            }
            Ok::<(), Failure>(())
        };
        if timeout(end.saturating_duration_since(Instant::now()), step)
            .await
            .is_ok()
        {
            count += 1;
        }
    }
    count
}

/// Sends packets whose answers would be longer, and counts bytes.
async fn flood_discovery(
    contact: NodeContact,
    mut entropy: Entropy,
    end: Instant,
) -> Result<(u64, u64, u64), Failure> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let own = PacketEndpoint::new(IpAddr::V4(Ipv4Addr::LOCALHOST), socket.local_addr()?.port(), 0);
    let dialect = DiscoveryDialect::Public {
        network_id: NETWORK_ID,
    };
    let (mut packets, mut sent, mut came) = (0, 0, 0);
    let mut buffer = [0; 2048];
    let to: SocketAddr = contact.udp_address();
    while Instant::now() < end {
        let key = entropy.secret_key();
        let expiry = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)?
            .as_secs()
            + 20;
        let ping = DiscoveryPacket::Ping {
            from: own,
            to: PacketEndpoint::new(contact.ip, contact.udp, 0),
            tail: PacketTail {
                record_sequence: None,
                network_id: Some(NETWORK_ID),
            },
        };
        let find = DiscoveryPacket::FindNode {
            target: key.public_key(),
            brothers_only: false,
        };
        for packet in [ping, find] {
            let (bytes, _) = packet.seal(&key, dialect, expiry);
            sent += socket.send_to(&bytes, to).await? as u64;
            packets += 1;
        }
        while let Ok((count, _)) = socket.try_recv_from(&mut buffer) {
            came += count as u64;
        }
        tokio::task::yield_now().await;
    }
    Ok((packets, sent, came))
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    if !options.attacks.is_empty() {
        let attacks = Attack::named(&options.attacks, Attack::is_of_peers)?;
        return run_all(&attacks, options.attack_seconds.map(Duration::from_secs));
    }
    runtime()?.block_on(run(options))
}

async fn run(options: Options) -> Result<(), Failure> {
    let (node, pid) = options.node.zip(options.pid).ok_or("no node")?;
    let conduct = options.conduct.ok_or("no conduct")?;
    let enode: Enode = node.parse()?;
    let contact = NodeContact::from_enode(&enode).ok_or("expected an address in the enode URL")?;
    let mut entropy = Entropy::from_system()?;
    let genesis = {
        let mut good = PlayedNode::join(&contact, WireFamily::Mc, LOCAL, &mut entropy).await?;
        good.header(BLOCK_0).await?
    };
    println!("{conduct:?}");
    let before = ProcessUse::read(pid)?;
    before.print("before");
    let begun = Instant::now();
    let end = begun + Duration::from_secs(options.seconds);
    let watched = AttackTarget {
        rpc: contact.tcp_address(),
        ws: None,
        stratum: None,
        contact,
        family: WireFamily::Mc,
        network_id: NETWORK_ID,
        pid,
        sources: AttackSources::LOCAL,
    };
    let watching = tokio::spawn(watch_as_peer(watched, entropy.fork(), end));
    match conduct {
        Conduct::Good | Conduct::Silent => {
            let mut held = JoinSet::new();
            let mut silent = Vec::new();
            for _ in 0..options.count {
                if conduct == Conduct::Silent {
                    silent.extend(TcpStream::connect(contact.tcp_address()).await);
                    continue;
                }
                let mut peer = PlayedNode::join(&contact, WireFamily::Mc, LOCAL, &mut entropy).await?;
                held.spawn(async move { while peer.next().await.is_ok() {} });
            }
            println!(
                "  {} connections in {:.1} s",
                options.count,
                begun.elapsed().as_secs_f64()
            );
            // The node closes silent connections after five seconds.
            sleep(Duration::from_secs(2)).await;
            ProcessUse::read(pid)?.print("during");
            tokio::time::sleep_until(end.into()).await;
            drop(silent);
            let ended = std::iter::from_fn(|| held.try_join_next()).count();
            println!("  {ended} of the good peers have lost their places");
        }
        Conduct::Discovery => {
            let (packets, sent, came) = flood_discovery(contact, entropy.fork(), end).await?;
            println!("  {packets} packets, {sent} bytes sent, {came} bytes came back");
        }
        conduct => {
            let mut attackers = JoinSet::new();
            for _ in 0..ATTACKERS {
                attackers.spawn(attack(conduct, contact, genesis.clone(), entropy.fork(), end));
            }
            sleep(Duration::from_secs(options.seconds / 2)).await;
            ProcessUse::read(pid)?.print("during");
            let counts = attackers.join_all().await;
            println!("  {} times", counts.iter().sum::<u64>());
        }
    }
    let seen = watching.await?;
    let after = ProcessUse::read(pid)?;
    after.print("after");
    println!(
        "  the witness had {} answers: median {:.1} ms, longest {:.1} ms; {} did not come",
        seen.times.len(),
        seen.median().as_secs_f64() * 1e3,
        seen.longest().as_secs_f64() * 1e3,
        seen.lost
    );
    let used = after.processor.saturating_sub(before.processor);
    println!(
        "  processor of the node: {:.2} s in {} s",
        used.as_secs_f64(),
        options.seconds
    );
    sleep(Duration::from_secs(8)).await;
    ProcessUse::read(pid)?.print("later");
    Ok(())
}
