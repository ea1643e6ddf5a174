//! Which path stands for which method.

use std::collections::HashMap;

use http::uri::PathAndQuery;
use kontiki_client::proto::DESCRIPTORS;
use prost_reflect::{DescriptorPool, MessageDescriptor, MethodDescriptor};

/// What comes before the names of the table.
const PREFIXES: [&str; 2] = ["/v3/", "/v3beta/"];

/// Names and methods, as etcd 3.5 pairs them.
const TABLE: &[(&str, &str)] = &[
    ("kv/range", "etcdserverpb.KV/Range"),
    ("kv/put", "etcdserverpb.KV/Put"),
    ("kv/deleterange", "etcdserverpb.KV/DeleteRange"),
    ("kv/txn", "etcdserverpb.KV/Txn"),
    ("kv/compaction", "etcdserverpb.KV/Compact"),
    ("watch", "etcdserverpb.Watch/Watch"),
    ("lease/grant", "etcdserverpb.Lease/LeaseGrant"),
    ("lease/revoke", "etcdserverpb.Lease/LeaseRevoke"),
    ("kv/lease/revoke", "etcdserverpb.Lease/LeaseRevoke"),
    ("lease/keepalive", "etcdserverpb.Lease/LeaseKeepAlive"),
    ("lease/timetolive", "etcdserverpb.Lease/LeaseTimeToLive"),
    ("kv/lease/timetolive", "etcdserverpb.Lease/LeaseTimeToLive"),
    ("lease/leases", "etcdserverpb.Lease/LeaseLeases"),
    ("kv/lease/leases", "etcdserverpb.Lease/LeaseLeases"),
    ("cluster/member/add", "etcdserverpb.Cluster/MemberAdd"),
    ("cluster/member/remove", "etcdserverpb.Cluster/MemberRemove"),
    ("cluster/member/update", "etcdserverpb.Cluster/MemberUpdate"),
    ("cluster/member/list", "etcdserverpb.Cluster/MemberList"),
    ("cluster/member/promote", "etcdserverpb.Cluster/MemberPromote"),
    ("maintenance/alarm", "etcdserverpb.Maintenance/Alarm"),
    ("maintenance/status", "etcdserverpb.Maintenance/Status"),
    ("maintenance/defragment", "etcdserverpb.Maintenance/Defragment"),
    ("maintenance/hash", "etcdserverpb.Maintenance/Hash"),
    ("maintenance/snapshot", "etcdserverpb.Maintenance/Snapshot"),
    ("maintenance/transfer-leadership", "etcdserverpb.Maintenance/MoveLeader"),
    ("maintenance/downgrade", "etcdserverpb.Maintenance/Downgrade"),
    ("auth/enable", "etcdserverpb.Auth/AuthEnable"),
    ("auth/disable", "etcdserverpb.Auth/AuthDisable"),
    ("auth/status", "etcdserverpb.Auth/AuthStatus"),
    ("auth/authenticate", "etcdserverpb.Auth/Authenticate"),
    ("auth/user/add", "etcdserverpb.Auth/UserAdd"),
    ("auth/user/get", "etcdserverpb.Auth/UserGet"),
    ("auth/user/list", "etcdserverpb.Auth/UserList"),
    ("auth/user/delete", "etcdserverpb.Auth/UserDelete"),
    ("auth/user/changepw", "etcdserverpb.Auth/UserChangePassword"),
    ("auth/user/grant", "etcdserverpb.Auth/UserGrantRole"),
    ("auth/user/revoke", "etcdserverpb.Auth/UserRevokeRole"),
    ("auth/role/add", "etcdserverpb.Auth/RoleAdd"),
    ("auth/role/get", "etcdserverpb.Auth/RoleGet"),
    ("auth/role/list", "etcdserverpb.Auth/RoleList"),
    ("auth/role/delete", "etcdserverpb.Auth/RoleDelete"),
    ("auth/role/grant", "etcdserverpb.Auth/RoleGrantPermission"),
    ("auth/role/revoke", "etcdserverpb.Auth/RoleRevokePermission"),
    ("lock/lock", "v3lockpb.Lock/Lock"),
    ("lock/unlock", "v3lockpb.Lock/Unlock"),
    ("election/campaign", "v3electionpb.Election/Campaign"),
    ("election/proclaim", "v3electionpb.Election/Proclaim"),
    ("election/leader", "v3electionpb.Election/Leader"),
    ("election/observe", "v3electionpb.Election/Observe"),
    ("election/resign", "v3electionpb.Election/Resign"),
];

/// The part of a path that the table knows, where it is a path of the gateway at all.
pub(super) fn name(path: &str) -> Option<&str> {
    PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix))
}

/// A method, and what goes in and out.
pub(super) struct Route {
    pub(super) path: PathAndQuery,
    pub(super) input: MessageDescriptor,
    pub(super) output: MessageDescriptor,
    /// The client may send several messages.
    pub(super) takes_many: bool,
    gives_many: bool,
}

impl Route {
    /// Whether several answers may come.
    pub(super) fn is_stream(&self) -> bool {
        self.gives_many
    }
}

/// All of them.
pub(super) struct Routes(HashMap<&'static str, Route>);

impl Routes {
    /// The table, completed by what the descriptors say.
    pub(super) fn read() -> Self {
        let pool = DescriptorPool::decode(DESCRIPTORS).expect("the build made the descriptors");
        let route = |&(name, method): &(&'static str, &'static str)| {
            let found = find(&pool, method).expect("the table names methods that there are");
            let path = PathAndQuery::try_from(format!("/{method}"));
            let route = Route {
                path: path.expect("a method makes a path"),
                input: found.input(),
                output: found.output(),
                takes_many: found.is_client_streaming(),
                gives_many: found.is_server_streaming(),
            };
            (name, route)
        };
        Self(TABLE.iter().map(route).collect())
    }

    pub(super) fn find(&self, name: &str) -> Option<&Route> {
        self.0.get(name)
    }
}

fn find(pool: &DescriptorPool, method: &str) -> Option<MethodDescriptor> {
    let (service, method) = method.rsplit_once('/')?;
    pool.get_service_by_name(service)?.methods().find(|found| found.name() == method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_own_method() {
        let routes = Routes::read();
        assert_eq!(routes.0.len(), TABLE.len(), "no name is there twice");
        let watch = routes.find("watch").expect("a route");
        assert_eq!(watch.path, "/etcdserverpb.Watch/Watch");
        assert!(watch.takes_many && watch.is_stream());
        let snapshot = routes.find("maintenance/snapshot").expect("a route");
        assert!(!snapshot.takes_many && snapshot.is_stream());
        let range = routes.find("kv/range").expect("a route");
        assert!(!range.takes_many && !range.is_stream());
        assert_eq!(range.input.full_name(), "etcdserverpb.RangeRequest");
        assert_eq!(range.output.full_name(), "etcdserverpb.RangeResponse");
    }

    #[test]
    fn only_two_prefixes_lead_here() {
        assert_eq!(name("/v3/kv/range"), Some("kv/range"));
        assert_eq!(name("/v3beta/kv/range"), Some("kv/range"));
        for path in ["/v3", "/v3alpha/kv/range", "/v2/keys", "/", "/v33/kv/range"] {
            assert_eq!(name(path), None, "{path}");
        }
    }
}
