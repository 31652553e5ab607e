//! The boot nodes of the public networks: the nodes that a new node asks first.
//!
//! Source: docs/p2p.md, 9.

use primitives::{B512, hex};

use crate::contact::NodeContact;

/// The port of the public network's, for UDP and TCP.
const PORT: u16 = 30333;
/// The port of those of Ethereum's family.
const ETHEREUM_PORT: u16 = 30303;

/// Of Ethereum Classic. Source: docs/etc.md, 2.
const CLASSIC: [(&str, &str); 3] = [
    (
        "134.209.30.110",
        "37b20dc1ca0ba428dc07f4bf87c548aa57b53e6883c607a041c88cc0f72c27ef3487b0e94f50e787fff8af5e2baf029cd6105461aa8ec250ccae93d6972107a9",
    ),
    (
        "157.245.77.211",
        "6b6ea53a498f0895c10269a3a74b777286bd467de6425c3b512740fcc7fbc8cd281dca4ab041dd97d62b38f3d0b5b05e71f48d28a3a2f4b5de40fe1f6bf05531",
    ),
    (
        "64.225.0.245",
        "16264d48df59c3492972d96bf8a39dd38bab165809a3a4bb161859a337de38b2959cc98efea94355c7a7177cd020867c683aed934dbd6bc937d9e6b61d94d8d9",
    ),
];

/// Of Mordor. Source: docs/etc.md, 2.
const MORDOR: [(&str, &str); 1] = [(
    "24.199.107.164",
    "4539a067ae1f6a7ffac509603ba37baf772fc832880ddc67c53f292b6199fb048267f0311c820bc90bfd39ec663bc6b5256bdf787ec38425c82bde6bc2bcfe3c",
)];

/// Of the main network.
const MAIN: [(&str, &str); 13] = [
    (
        "18.233.50.84",
        "3d8ba7cef2dcc8e25bd508e6a42d7b36a957afe8dc5cd9603ffd0857aae68b2768a06de6054816edec407a4579b15b5c7494e9c7e8323b015d6e9d518576e9eb",
    ),
    (
        "18.211.187.153",
        "6f29307c8715502c11791704759d88910e091f5d4a6daf509fc9d0d8653967fd2cda76c94731e2db6654ff889a684a55f9a6bc6f0b3144282eb2c3e7cbccb4b1",
    ),
    (
        "54.71.244.228",
        "1cf0eb6052ee692e85cf5447c9b1ef95c57f23e2efe1cd8cd5a01b44feadc3395f3aa02e0b1130dffcfdac3225b3ce8d773bfd148efadc3846353337a45c99a2",
    ),
    (
        "52.34.175.72",
        "bebab9587e939fab7e21922864cdf6668193e1fcfe5f69ef128216c96e5e08dae1a8d9b99e0cb158bd040c9ac249c3569d43675f0e637fb2cf9e2df9e39738d7",
    ),
    (
        "124.70.166.158",
        "0333b61a2d6fb25fb592b68fdf64b324ab0b27ecad815cf47b459dc83f56d191c81da1eb6d015ca14c87b822e1f2446112b9d15790209ef2aa8f22afd3f978c4",
    ),
    (
        "117.78.9.104",
        "b413ccff047e38415b4d6fc20ad79461956943d62cdfcfa9d210d8c522419cc4db1b229c7da5ad15e92a4228363fe54d712c215ef854e6992f4292c07c66744e",
    ),
    (
        "121.37.217.111",
        "5e59505a2aac6c24df868d3d5fc7047b2f50512773409c0a2c38eb628fdd58aa4826909109b284f3e0e8d2727badb285700cae334ed6d889ef0cb24a47df358e",
    ),
    (
        "139.198.122.215",
        "9675508dfc11685d762f0b95f9f939af872baf2d2f289e6b142768030dd62a8f413fc7baa6bd2744a4ec7bf8d001ed59dc82e47e46702092097dcc7a7f08beee",
    ),
    (
        "18.130.240.247",
        "68c48e272a78e288c9e86ca2c272cf51ed9dbbe305e8f257cf347b4282dc04bc404ca25178025661216b4f15d610b1d536ab3c8610ca4357251ba85451a889c4",
    ),
    (
        "13.211.142.153",
        "624c26083a9be2ac0624bc5e4d88633aca89f62bbca1e7929a05bfc9f06a42202168b12ed5303f95e26296f8092d07b61071eedaccfe7027ceb0e7330589bc5c",
    ),
    (
        "35.182.237.1",
        "4c8fac5ed1f8e5676d8f6b722fdb69b289dd58fe5844f0ae036b9d257bc6c4ebb94641cd590f8d7ed282c7690217eaf17898712b974ce23cfccbe167edc1faa0",
    ),
    (
        "47.88.237.205",
        "ab485ba14e3955cedeff78ef760bc34c450f80396ea5f2c9a2669e2aa7d16dec014a6772a5eacd3726f8ee83cc0877ce2c0cf2a9a95b6e3e239df15bcbe52d58",
    ),
    (
        "47.74.9.125",
        "3303754238a2a2f07aadf7683224768c562822517e270b38fad7cf6df9c1af6d94a42ce361bbe965a38f2a2b1dfc2873518a8c20a5a004e8aa105d3bc3dd4a8b",
    ),
];

/// Of the test network.
const TEST: [(&str, &str); 8] = [
    (
        "18.217.180.94",
        "271c55ef39be9208e6ad75c935061412b39e51dd97a8e4dbba7d358e91132fd7c79ee687228edea3fd9c833b6ce9c365365aa526999956914d7ac81d00576e76",
    ),
    (
        "52.15.143.41",
        "089554d6929600b9c70bbd6e1c12594697d0aec43127b9b29c6eb96faf06884fd284f56c3de64155d65e540b59a43f4fd07d8802b4b5e95b2922531e6096c2d5",
    ),
    (
        "18.188.171.176",
        "4489532a497654b67f5e6417f19950193208ec3ac06b0f13babdb315bf091cc650850a9a1f8d01b33d80dfddd0a0e58c4b5b11a399f7d1cd86eb9d1f6269fe60",
    ),
    (
        "124.70.63.159",
        "0eb6b47f65c2225981d6511dfa6472547cec15c854eb87c73af1db44a943353d32f5366d0dbb16573271ed56397cd8ee5b73402816507a367d522b3d30cfe369",
    ),
    (
        "124.70.63.132",
        "1c744f4ed3cfe94f27f0fa80287fe54b4755b9c3f0a526f16516da6312af352613276e4365e158ee8fc4aeeee90dc851a95149333bb6c75038b4668612aaea62",
    ),
    (
        "39.108.79.40",
        "e88a288b19e55a79cdeabd9c5326602dbb2ba5a5e29eca66bdddf20d598cf7126fce9080b53399ef02e200891cd590b6ff9c23a8c15789f04790d1e69054bd9c",
    ),
    (
        "139.198.18.165",
        "074d95c52cd573a7e1525eb8ef303f245401aeed1d7e2c603661ad9962ecdd3b590aaf9eacc5f0532c6afe97216da86a570d7b48778347856f3c431e78078197",
    ),
    (
        "139.198.177.202",
        "832bdd83b2f5c89b68a2ac733d7e31d26bbf904d5a5316e857802c0055b1eed3bd5daa2894bc9ac570ae0bb0c761d05c61621db23ffcd3ac2556ce3dc0503086",
    ),
];

/// The boot nodes of the network with this id. None are known of most networks.
pub fn boot_nodes(network_id: u64) -> Vec<NodeContact> {
    let (rows, port) = match network_id {
        99 => (&MAIN[..], PORT),
        101 => (&TEST[..], PORT),
        1 => (&CLASSIC[..], ETHEREUM_PORT),
        7 => (&MORDOR[..], ETHEREUM_PORT),
        _ => (&[][..], PORT),
    };
    let contact = |(ip, id): &(&str, &str)| {
        let mut bytes = [0; 64];
        hex::decode_to_slice(id, &mut bytes).ok()?;
        Some(NodeContact {
            id: B512::from(bytes),
            ip: ip.parse().ok()?,
            udp: port,
            tcp: port,
        })
    };
    rows.iter().filter_map(contact).collect()
}

#[cfg(test)]
mod tests {
    use primitives::compress_public_key;

    use super::*;

    #[test]
    fn all_rows_are_nodes() {
        for (network_id, count) in [
            (99, MAIN.len()),
            (101, TEST.len()),
            (1, CLASSIC.len()),
            (7, MORDOR.len()),
            (100, 0),
        ] {
            let nodes = boot_nodes(network_id);
            assert_eq!(nodes.len(), count);
            // An id with a wrong digit is hardly ever on the curve.
            assert!(nodes.iter().all(|node| compress_public_key(&node.id).is_ok()));
        }
    }
}
