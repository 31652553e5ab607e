use super::*;

fn parse(arguments: &[&str]) -> Result<VnodeOptions, clap::Error> {
    VnodeOptions::try_parse_from(std::iter::once(&"vnode").chain(arguments))
}

#[test]
fn documented_options_are_accepted() {
    let options = parse(&[
        "--dev",
        "--mine",
        "--minerthreads",
        "0",
        "--datadir",
        "d",
        "--rpc",
        "--rpcaddr",
        "0.0.0.0",
        "--rpcport",
        "9",
        "--rpcapi",
        "mc,net",
        "--rpc.noalias",
        "--rpc.pendingnumber",
        "--nodekey",
        "k",
        "--ipcpath",
        "p",
        "--ipcdisable",
        "--vnodeconfig",
        "v",
        "--nodiscover",
        "--port",
        "7",
        "--verbosity",
        "5",
        "--log.json",
        "--miner.device",
        "gpu:1",
        "--verify.device",
        "gpu:0",
        "--ethash.dagdir",
        "e",
    ])
    .unwrap();
    assert_eq!(options.check(), Ok(()));
    assert_eq!(options.threads(), 0);
    assert_eq!(options.dataset(), engine::DatasetPolicy::Disk("e".into()));
}

#[test]
fn accounts_have_an_address_or_a_number() {
    let digits = "9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f";
    let options = parse(&["--dev", "--unlock", &format!("{digits}, 0x{digits},2")]).unwrap();
    let address = AccountRef::Address(digits.parse().unwrap());
    assert_eq!(
        options.unlock,
        [address.clone(), address.clone(), AccountRef::Number(2)]
    );
    let options = parse(&["account", "update", digits, "--keystore", "k"]).unwrap();
    assert_eq!(options.keystore, Some("k".into()));
    let Some(VnodeCommand::Account(command)) = options.command else {
        panic!("expected a command on accounts");
    };
    assert_eq!(command, AccountCommand::Update { account: address });
    assert!(parse(&["--datadir", "d", "account", "list"]).is_ok());
}

#[test]
fn commands_take_numbers_and_global_options() {
    let options = parse(&["export", "f", "0x10", "17", "--datadir", "d", "--network", "test"]).unwrap();
    assert_eq!(options.network(), Ok(Some(Network::Test)));
    assert_eq!(options.data_directory(), Ok("d".into()));
    let Some(VnodeCommand::Export {
        file, first, last, ..
    }) = options.command
    else {
        panic!("expected an export");
    };
    assert_eq!((file, first, last), ("f".into(), Some(16), Some(17)));
    for (text, expected) in [("latest", HeightRef::Latest), ("7", HeightRef::Number(7))] {
        let Some(VnodeCommand::Dump { block, .. }) = parse(&["dump", text]).unwrap().command else {
            panic!("expected a dump");
        };
        assert_eq!(block, expected);
    }
    assert_eq!(parse(&["--dev", "--network", "dev"]).unwrap().check(), Ok(()));
}

#[test]
fn invalid_options_are_refused() {
    for bad in [
        &["export", "--format", "parquet", "--tables", "blocks,tokens", "d"][..],
        &["export", "--partition", "0", "d"],
        &["--rpcport", "70000"],
        &["--stratumport", "70000"],
        &["--stratum.difficulty", "0"],
        &["--stratum.bantime", "86401"],
        &["--stratum.status", "8009"],
        &["--rpcapi", "mc,wrong"],
        &["--verbosity", "6"],
        &["--miner.device", "tpu"],
        &["--verify.device", "gpu:0,1"],
        &["--minerthreads", "-1"],
        &["--moacbase", "0x12"],
        &["--unlock", "0x12"],
        &["account"],
        &["account", "update"],
        &["account", "burn"],
        &["--network", "rope"],
        &["--networkid", "x"],
        &["--p2p.addr", "localhost"],
        &["--p2p.addr", "[127.0.0.1]"],
        &["--discovery.port", "65536"],
        &["--maxpendpeers", "1025"],
        &["--identity", ""],
        &["--identity", "two\nlines"],
        &["--identity", "größer"],
        &["--identity", &"x".repeat(65)],
        &["--bootnodes", "enr:-IS4QHCYrYZbAKWCBRlAy5zzaDZXJBGkcnh4MHcB"],
        &["--discovery.dns", "nodes.example.org"],
        &["--discovery.dns", "enrtree://KEY@nodes.example.org"],
        &["init"],
        &["export"],
        &["export", "f", "x"],
        &["export", "f", "1", "2", "3"],
        &["db"],
        &["dump"],
        &["dump", "-1"],
        &["--unknown"],
    ] {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
    let check = |arguments: &[&str]| parse(arguments).unwrap().check();
    assert_eq!(check(&[]), Ok(()));
    assert_eq!(
        check(&["--dev", "--network", "main"]),
        Err(OptionsError::TwoNetworks(Network::Main))
    );
    assert_eq!(
        check(&["--network", "dev", "--genesis", "g"]),
        Err(OptionsError::DevGenesis("g".into()))
    );
    assert_eq!(
        check(&["--dev", "--miner.dataset", "disk"]),
        Err(OptionsError::DatasetFolder)
    );
    let long = "x".repeat(33);
    let refused = check(&["--dev", "--extradata", &long]);
    assert_eq!(refused, Err(OptionsError::ExtraData { got: 33, max: 32 }));
}

#[test]
fn blocks_without_seals_are_for_the_development_network() {
    let instant = parse(&["--dev", "--dev.seal", "instant"]).unwrap();
    assert_eq!((instant.dev_seal, instant.check()), (DevSeal::Instant, Ok(())));
    assert_eq!(parse(&["--dev"]).unwrap().dev_seal, DevSeal::Ethash);
    let anvil = parse(&["--dev", "--dev.anvil", "--rpcapi", "net"])
        .unwrap()
        .for_anvil();
    assert_eq!(
        (anvil.dev_seal, anvil.moacbase),
        (DevSeal::Instant, Some(Address::ZERO))
    );
    assert!(anvil.rpcapi.contains("net") && anvil.rpcapi.contains("hardhat") && !anvil.rpcapi.contains("mc"));
    assert!(parse(&["--dev", "--dev.anvil", "--mine"]).is_err());
    assert!(parse(&["--dev", "--dev.anvil", "--dev.seal", "ethash"]).is_err());
    let mining = parse(&["--dev", "--dev.seal", "instant", "--mine"]).unwrap();
    assert_eq!(mining.check(), Err(OptionsError::InstantMine));
    assert!(parse(&["--dev", "--dev.seal", "fast"]).is_err());
    let period = |others: &[&str]| parse(&[&["--dev", "--dev.period", "2"], others].concat()).unwrap();
    assert_eq!(period(&[]).check(), Err(OptionsError::PeriodSeal));
    assert_eq!(period(&["--dev.seal", "instant"]).check(), Ok(()));
    assert_eq!(period(&["--dev.anvil"]).check(), Ok(()));
    assert!(parse(&["--dev", "--dev.period", "86401"]).is_err());
}

#[test]
fn seals_go_unchecked_only_on_networks_of_ones_own() {
    let check = |others: &[&str]| parse(&[&["--fakepow"], others].concat()).unwrap().check();
    assert_eq!(check(&[]), Ok(()));
    assert_eq!(check(&["--dev"]), Ok(()));
    assert_eq!(check(&["--genesis", "g"]), Ok(()));
    for name in ["main", "test", "classic", "mordor"] {
        let expected = Err(OptionsError::FakePowNetwork(name.to_owned()));
        assert_eq!(check(&["--network", name]), expected);
        assert_eq!(check(&["--network", name, "import", "f"]), expected);
    }
    assert_eq!(check(&["--mine"]), Err(OptionsError::FakePowMine("--mine")));
    assert_eq!(check(&["--stratum"]), Err(OptionsError::FakePowMine("--stratum")));
    let alone = |arguments: &[&str]| {
        let options = parse(arguments).unwrap();
        !options.peers.has_discovery(options.is_alone())
    };
    let node = format!("enode://{}@127.0.0.1:1", "11".repeat(64));
    assert!(alone(&["--fakepow"]) && alone(&["--dev"]) && !alone(&[]));
    assert!(!alone(&["--fakepow", "--bootnodes", &node]));
}

#[test]
fn accounts_are_not_unlocked_for_strangers() {
    let check = |arguments: &[&str], expected| {
        let arguments = [&["--unlock", "0"], arguments].concat();
        assert_eq!(parse(&arguments).unwrap().check(), expected, "{arguments:?}");
    };
    check(&["--rpc"], Ok(()));
    check(
        &["--rpc", "--rpcaddr", "127.0.0.9", "--ws", "--wsaddr", "[::1]"],
        Ok(()),
    );
    check(&["--rpcaddr", "0.0.0.0"], Ok(()));
    let exposed = ["--rpc", "--rpcaddr", "0.0.0.0"];
    check(&exposed, Err(OptionsError::InsecureUnlock("--rpcaddr")));
    check(
        &["--ws", "--wsaddr", "a.example"],
        Err(OptionsError::InsecureUnlock("--wsaddr")),
    );
    check(&[&exposed[..], &["--allow-insecure-unlock"]].concat(), Ok(()));
}

#[test]
fn websockets_share_the_port_if_they_name_it() {
    let shares = |arguments: &[&str]| parse(arguments).unwrap().ws_on_http();
    assert!(!shares(&["--rpc", "--ws"]));
    assert!(shares(&["--rpc", "--ws", "--wsport", "8545"]));
    assert!(!shares(&[
        "--rpc",
        "--ws",
        "--wsport",
        "8545",
        "--wsaddr",
        "127.0.0.1"
    ]));
    assert!(!shares(&["--rpc", "--ws", "--rpcport", "0", "--wsport", "0"]));
    assert!(!shares(&["--ws", "--wsport", "8545"]));
}

#[test]
fn arguments_of_commands_are_no_options_of_the_log() {
    let options = parse(&["export", "blocks.rlp", "1"]).unwrap();
    assert_eq!((options.log.file, options.log.json), (None, false));
    let options = parse(&["version", "--json"]).unwrap();
    assert!(!options.log.json);
    let options = parse(&["export", "blocks.rlp", "--log.file", "log"]).unwrap();
    assert_eq!(options.log.file.as_deref(), Some(std::path::Path::new("log")));
    assert!(
        matches!(options.command, Some(VnodeCommand::Export { file, .. }) if file.as_os_str() == "blocks.rlp")
    );
}

#[test]
fn the_node_listens_where_it_is_told() {
    let at = |arguments: &[&str], is_dev: bool| -> Vec<String> {
        let addresses = parse(arguments).unwrap().peers.listen_addresses(is_dev);
        addresses.iter().map(ToString::to_string).collect()
    };
    assert_eq!(at(&[], false), ["0.0.0.0:30333", "0.0.0.0:0"]);
    assert_eq!(at(&[], true), ["127.0.0.1:0"]);
    assert_eq!(at(&["--port", "7"], true), ["0.0.0.0:7"]);
    assert_eq!(at(&["--p2p.addr", "::"], false), ["[::]:30333", "[::]:0"]);
    assert_eq!(at(&["--p2p.addr", "[::1]", "--port", "7"], false), ["[::1]:7"]);
    assert_eq!(at(&["--p2p.addr", "10.0.0.1"], true), ["10.0.0.1:0"]);
    let pending = |arguments: &[&str]| parse(arguments).unwrap().peers.pending_max();
    assert_eq!(pending(&[]), 50);
    assert_eq!(pending(&["--maxpendpeers", "0"]), 50);
    assert_eq!(pending(&["--maxpendpeers", "3"]), 3);
}

#[test]
fn boot_nodes_have_enodes_or_records() {
    // The example in EIP-778 has no TCP port, so it is signed again here.
    let key = primitives::SecretKey::from_bytes(&[7; 32]).unwrap();
    let claims = network::testing::NodeClaims {
        ip: Some([10, 0, 0, 1].into()),
        tcp: 30303,
        udp: 30301,
        fork_id: None,
        has_snap: false,
    };
    let record = network::testing::NodeRecord::sign(&key, 1, &claims);
    let contact = record.contact().unwrap();
    let list = format!("{record}, {contact}");
    let nodes = parse(&["--bootnodes", &list]).unwrap().peers.boot_nodes(1);
    assert_eq!(nodes, [contact, contact]);
}

#[test]
fn the_identity_is_part_of_the_client_name() {
    let options = parse(&["--identity", "node 7 of pool~"]).unwrap();
    let name = crate::version::client_version_of(options.peers.identity.as_ref());
    assert!(name.starts_with("vnode/node 7 of pool~/v"), "{name}");
    assert_eq!(
        crate::version::client_version_of(None),
        crate::version::client_version()
    );
}

#[test]
fn required_blocks_are_numbers_with_hashes() {
    let read =
        |text: &str| parse(&["--eth.requiredblocks", text]).map(|options| options.peers.required_blocks());
    let hash = "0x".to_owned() + &"5c".repeat(32);
    let blocks = read(&format!("7={hash}, 1920000={}", &hash[2..])).unwrap();
    assert_eq!(
        blocks.iter().map(|block| block.number).collect::<Vec<_>>(),
        [7, 1_920_000]
    );
    assert!(blocks.iter().all(|block| block.hash.to_string() == hash));
    assert!(parse(&[]).unwrap().peers.required_blocks().is_empty());
    for (text, expected) in [
        ("7".to_owned(), "expected NUMBER=HASH"),
        (format!("x={hash}"), "expected NUMBER=HASH"),
        ("7=0x12".to_owned(), "expected NUMBER=HASH"),
        (
            vec![format!("7={hash}"); 17].join(","),
            "got 17 blocks, expected at most 16",
        ),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn lists_of_nodes_are_those_of_the_network_or_those_named() {
    let lists = |arguments: &[&str]| parse(arguments).unwrap().peers.dns_lists(7);
    assert_eq!(lists(&[]), network::dns_lists(7));
    assert_eq!(lists(&["--discovery.dns="]), []);
    let url = "enrtree://AJE62Q4DUX4QMMXEHCSSCSC65TDHZYSMONSD64P3WULVLSF6MRQ3K@nodes.example.org";
    let named = lists(&["--discovery.dns", &format!("{url}, {url}")]);
    assert_eq!(
        named.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [url, url]
    );
}

#[test]
fn an_index_needs_all_past_states() {
    let check = |others: &[&str]| {
        parse(&[&["--index", "address"], others].concat())
            .unwrap()
            .check()
    };
    for (others, option) in [
        (&["--state", "recent"], "--state recent"),
        (&["--syncmode", "snap"], "--syncmode snap"),
    ] {
        assert_eq!(check(others), Err(OptionsError::IndexStates(option)));
    }
    for others in [&[][..], &["--state", "archive"], &["--syncmode", "full"]] {
        assert_eq!(check(others), Ok(()), "{others:?}");
    }
    assert!(parse(&["--index", "none"]).is_err());
}
