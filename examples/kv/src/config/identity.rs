//! Ids that every node computes alike from the same `--initial-cluster`, as etcd's nodes do:
//! a member's from its peer URLs and the token, the cluster's from its members'.
//!
//! The hash is part of the format: a node finds its own id again in its data directory. It is
//! FNV-1a over the parts, each followed by a byte that no text contains, and then MurmurHash3's
//! finalizer, because ids are also what votes and maps are keyed by.

use kontiki::NodeId;

use super::HttpUrl;

/// The id of the member that is reached at `peer_urls`, whatever their order.
pub fn member_id(token: &str, peer_urls: &[HttpUrl]) -> NodeId {
    let mut urls: Vec<String> = peer_urls.iter().map(HttpUrl::to_string).collect();
    urls.sort_unstable();
    let parts = urls.iter().map(String::as_bytes).chain([token.as_bytes()]);
    NodeId::new(hash(parts)).expect("the hash is never zero")
}

/// The id of the cluster that these members found, whatever their order.
pub fn cluster_id(members: impl IntoIterator<Item = NodeId>) -> u64 {
    let mut ids: Vec<[u8; 8]> = members.into_iter().map(|id| id.get().to_be_bytes()).collect();
    ids.sort_unstable();
    hash(ids.iter().map(<[u8; 8]>::as_slice))
}

/// The id of the cluster that these members found with the content of a backup: another one than
/// that of the cluster that was backed up, and the same for all members that begin with the same.
/// `content` is what that depends on: those that differ in it must not meet.
pub fn restored_cluster_id(members: impl IntoIterator<Item = NodeId>, content: &[u64]) -> u64 {
    let founded = cluster_id(members);
    let parts: Vec<[u8; 8]> =
        [founded].iter().chain(content).map(|part| part.to_be_bytes()).collect();
    hash(parts.iter().map(<[u8; 8]>::as_slice))
}

fn hash<'a>(parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    const PART_END: u8 = 0xff;

    let mut state = OFFSET;
    for part in parts {
        for byte in part.iter().chain([&PART_END]) {
            state = (state ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }
    state = (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    state = (state ^ (state >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (state ^ (state >> 33)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(port: u16) -> HttpUrl {
        HttpUrl::localhost(port)
    }

    #[test]
    fn ids_stay_what_they_were() {
        let member = member_id("etcd-cluster", &[url(2380)]);
        assert_eq!(member.to_string(), "fec5ef167e616b97");
        assert_eq!(format!("{:x}", cluster_id([member])), "145c4acd33ce3e24");
    }

    #[test]
    fn ids_depend_on_urls_and_token_but_not_on_order() {
        let id = member_id("a", &[url(1), url(2)]);
        assert_eq!(id, member_id("a", &[url(2), url(1)]));
        assert_ne!(id, member_id("b", &[url(1), url(2)]));
        assert_ne!(id, member_id("a", &[url(1)]));

        let [one, two] = [member_id("a", &[url(1)]), member_id("a", &[url(2)])];
        assert_eq!(cluster_id([one, two]), cluster_id([two, one]));
        assert_ne!(cluster_id([one, two]), cluster_id([one]));
        let restored = restored_cluster_id([one, two], &[7, 9]);
        assert_eq!(restored, restored_cluster_id([two, one], &[7, 9]));
        assert_ne!(restored, cluster_id([one, two]));
        assert_ne!(restored, restored_cluster_id([one, two], &[8, 9]));
        assert_ne!(restored, restored_cluster_id([one, two], &[7, 8]));
    }
}
