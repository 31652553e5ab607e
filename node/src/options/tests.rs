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
        "--ethash.dagdir",
        "e",
    ])
    .unwrap();
    assert_eq!(options.check(), Ok(()));
    assert_eq!(options.threads(), 0);
    assert_eq!(options.dataset(), miner::DatasetPolicy::Disk("e".into()));
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
    let Some(VnodeCommand::Export { file, first, last }) = options.command else {
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
        &["--rpcport", "70000"][..],
        &["--stratumport", "70000"],
        &["--stratum.difficulty", "0"],
        &["--stratum.bantime", "86401"],
        &["--stratum.status", "8009"],
        &["--rpcapi", "mc,wrong"],
        &["--verbosity", "6"],
        &["--miner.device", "tpu"],
        &["--minerthreads", "-1"],
        &["--moacbase", "0x12"],
        &["--unlock", "0x12"],
        &["account"],
        &["account", "update"],
        &["account", "burn"],
        &["--network", "rope"],
        &["--networkid", "x"],
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
