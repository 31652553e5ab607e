//! The option, a router with NAT-PMP that is played here, and the renewal of mappings.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::sync::watch;

use super::gateway::{PmpGateway, gateways_of};
use super::keeper::{MAPPING_LIFETIME, MAPPING_RENEWAL, MAPPING_RETRY, RouterAnswers};
use super::recording_gateway::RecordingGateway;
use super::*;

#[test]
fn values_of_the_option() {
    for text in ["any", "none", "upnp", "pmp", "extip:52.1.2.3", "extip:2a00::1"] {
        let option: NatOption = text.parse().expect(text);
        assert_eq!(option.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(option));
    }
    for text in ["extip:", "extip:host", "52.1.2.3", "upnp2"] {
        let error = text.parse::<NatOption>().expect_err(text).to_string();
        assert!(error.contains(text) && error.contains("extip:IP"), "{error}");
    }
}

#[test]
fn routers_of_the_routing_table() {
    let gateway = u32::from_ne_bytes([10, 0, 2, 2]);
    let table = format!(
        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
         eth0 00000000 {gateway:08X} 0003 0 0 0 00000000 0 0 0\n\
         eth0 0002000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\nbroken\n"
    );
    assert_eq!(gateways_of(&table), [IpAddr::from([10, 0, 2, 2])]);
    assert_eq!(gateways_of(""), [] as [IpAddr; 0]);
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a port")
}

/// Answers as a router with NAT-PMP does (RFC 6886). It passes each port on to the next one.
async fn play_router(socket: UdpSocket) {
    let mut request = [0; 64];
    while let Ok((count, from)) = socket.recv_from(&mut request).await {
        let request = &request[..count];
        let answer = match request {
            [0, 0] => [&[0, 128, 0, 0, 0, 0, 0, 9][..], &[52, 1, 2, 3]].concat(),
            [0, kind @ (1 | 2), _, _, high, low, _, _, lifetime @ ..] if lifetime.len() == 4 => {
                let is_end = lifetime == [0; 4];
                let outside = if is_end {
                    0
                } else {
                    u16::from_be_bytes([*high, *low]) + 1
                };
                let front = [0, 128 + kind, 0, 0, 0, 0, 0, 9, *high, *low];
                [&front[..], &outside.to_be_bytes(), lifetime].concat()
            }
            other => panic!("a request of NAT-PMP: {other:?}"),
        };
        socket.send_to(&answer, from).await.expect("sent");
    }
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_router_with_nat_pmp() {
    // The port is fixed, so the router has a loopback address of its own.
    let address = IpAddr::from([127, 53, 51, 1]);
    let socket = UdpSocket::bind((address, 5351)).await.expect("a free port");
    tokio::spawn(play_router(socket));
    let gateway = PmpGateway::find(vec![address]).await.expect("the router answers");
    assert_eq!(gateway.external_ip().await, Ok(IpAddr::from([52, 1, 2, 3])));
    let requests = [TransportProtocol::Udp, TransportProtocol::Tcp].map(|protocol| PortRequest {
        protocol,
        port: port(30333),
    });
    let (mut answers, now) = (RouterAnswers::default(), Instant::now());
    answers.renew(&gateway, &requests, now).await;
    let status = answers.status(now);
    let ports: Vec<_> = status.ports.iter().map(|(_, outside)| *outside).collect();
    assert_eq!(ports, [30334, 30334]);
    assert_eq!(gateway.unmap(TransportProtocol::Udp, port(30333)).await, Ok(()));
}

const REQUEST: PortRequest = PortRequest {
    protocol: TransportProtocol::Tcp,
    port: NonZeroU16::new(30333).expect("a port"),
};

#[tokio::test]
async fn mappings_end_when_the_node_stops() {
    let gateway = Arc::new(RecordingGateway::default());
    let (sender, mut status) = watch::channel(NatStatus::default());
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(keep_mapped(gateway.clone(), vec![REQUEST], sender, stopped));
    status.changed().await.expect("a change");
    let got = status.borrow().clone();
    assert_eq!(got.ports, [(REQUEST, 30333)]);
    assert_eq!(got.external_ip, None);
    // Readers of the status may live longer.
    stop.send(true).expect("it runs");
    task.await.expect("it ends");
    assert_eq!(gateway.asked(), ["map Tcp 30333 1200", "unmap Tcp 30333"]);
}

#[tokio::test]
async fn a_stop_is_heard_while_the_router_does_not_answer() {
    let gateway = Arc::new(RecordingGateway::silent());
    let (sender, _status) = watch::channel(NatStatus::default());
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(keep_mapped(gateway.clone(), vec![REQUEST], sender, stopped));
    tokio::task::yield_now().await;
    stop.send(true).expect("it runs");
    let ended = tokio::time::timeout(Duration::from_secs(20), task).await;
    ended.expect("it does not wait for the router").expect("it ends");
    assert_eq!(gateway.asked(), ["unmap Tcp 30333"]);
}

#[tokio::test]
async fn a_renewal_that_fails_changes_nothing_while_the_mapping_can_live() {
    let ip = IpAddr::from([52, 1, 2, 3]);
    let gateway = RecordingGateway::at(ip);
    let mut answers = RouterAnswers::default();
    let begun = Instant::now();
    let wait = answers.renew(&gateway, &[REQUEST], begun).await;
    assert_eq!(wait, MAPPING_RENEWAL);
    let whole = answers.status(begun);
    assert_eq!(
        (whole.external_ip, &whole.ports[..]),
        (Some(ip), &[(REQUEST, 30333)][..])
    );
    gateway.refuses.store(true, Ordering::Relaxed);
    let mut now = begun + wait;
    while now < begun + MAPPING_LIFETIME {
        let wait = answers.renew(&gateway, &[REQUEST], now).await;
        assert_eq!(wait, MAPPING_RETRY);
        assert_eq!(answers.status(now), whole, "{:?}", now - begun);
        now += wait;
    }
    assert_eq!(answers.status(now), NatStatus::default(), "the mapping is gone");
    gateway.refuses.store(false, Ordering::Relaxed);
    let wait = answers.renew(&gateway, &[REQUEST], now).await;
    assert_eq!((answers.status(now), wait), (whole, MAPPING_RENEWAL));
}

#[tokio::test]
async fn an_address_of_another_routers_network_is_not_believed() {
    for (ip, expected) in [
        ([52, 1, 2, 3], true),
        ([192, 168, 7, 2], false),
        ([100, 64, 0, 9], false),
    ] {
        let ip = IpAddr::from(ip);
        let mut answers = RouterAnswers::default();
        let begun = Instant::now();
        let wait = answers.renew(&RecordingGateway::at(ip), &[REQUEST], begun).await;
        let status = answers.status(begun);
        assert_eq!(
            (status.external_ip, wait),
            (expected.then_some(ip), MAPPING_RENEWAL)
        );
        assert_eq!(status.ports, [(REQUEST, 30333)]);
    }
    let given = find_gateway(NatOption::ExternalIp([192, 168, 7, 2].into())).await;
    assert!(given.expect("it is given").can_be_at([192, 168, 7, 2].into()));
}

#[tokio::test]
async fn a_given_address_needs_no_router() {
    let gateway = find_gateway("extip:52.1.2.3".parse().expect("an option"))
        .await
        .expect("it is given");
    assert_eq!(gateway.external_ip().await, Ok(IpAddr::from([52, 1, 2, 3])));
    assert_eq!(
        gateway
            .map(TransportProtocol::Udp, port(7), MAPPING_LIFETIME)
            .await,
        Ok(7)
    );
    assert!(find_gateway(NatOption::None).await.is_none());
}
