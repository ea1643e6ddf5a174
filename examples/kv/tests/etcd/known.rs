//! The differences that are meant to be there, each with its reason. One that is not met any more
//! fails the test, so that the table stays true.

/// A difference that is no fault of ours.
pub struct Known {
    /// How the versions of etcd begin that differ.
    pub versions: &'static str,
    pub scene: &'static str,
    /// Part of the request, as it is printed.
    pub request: &'static str,
    /// Part of etcd's answer.
    pub etcd: &'static str,
    /// Part of ours.
    pub ours: &'static str,
    pub reason: &'static str,
}

/// The table.
pub const KNOWN: &[Known] = &[
    Known {
        versions: "3.",
        scene: "unknown order",
        request: "sort_order",
        etcd: "kvs: [",
        ours: "InvalidArgument: etcdserver: invalid sort option",
        reason: "these etcds take an order that does not exist for none, and die of a target that \
                 does not exist; later ones refuse both, and so do we",
    },
    Known {
        versions: "3.",
        scene: "deep txn",
        request: "Txn",
        etcd: "succeeded: true",
        ours: "InvalidArgument: etcdserver: too many operations in txn request",
        reason: "our transactions are nested 32 deep at most: a reader of the log must follow them",
    },
    Known {
        versions: "3.",
        scene: "limits",
        request: "ignore_value: true",
        etcd: "InvalidArgument: etcdserver: key not found",
        ours: "InvalidArgument: etcdserver: request is too large",
        reason: "a key of ours has 32760 bytes at most: that is what our tables can hold",
    },
    Known {
        versions: "3.4.",
        scene: "services",
        request: "Alarm",
        etcd: "header: None",
        ours: "alarms: []",
        reason: "the header of this one answer was forgotten; etcd 3.5 has it too",
    },
    Known {
        versions: "3.4.",
        scene: "alarms",
        request: "Alarm",
        etcd: "header: None",
        ours: "alarms: [",
        reason: "as above, with alarms",
    },
    Known {
        versions: "3.4.",
        scene: "downgrade",
        request: "Downgrade",
        etcd: "Unimplemented: unknown method Downgrade",
        ours: "downgrade",
        reason: "the method came with etcd 3.5",
    },
    Known {
        versions: "3.4.",
        scene: "downgrade",
        request: "Downgrade",
        etcd: "Unimplemented: unknown method Downgrade",
        ours: "Unknown: etcdserver: unknown method",
        reason: "as above, for an action that does not exist",
    },
    Known {
        versions: "3.",
        scene: "the only voter",
        request: "Remove",
        etcd: "Unknown: etcdserver: re-configuration failed",
        ours: "FailedPrecondition: etcdserver: re-configuration failed",
        reason: "the words are the same; the code that belongs to them was forgotten, and etcd's \
                 own clients know them with ours",
    },
    Known {
        versions: "3.",
        scene: "a learner moves",
        request: "Member",
        etcd: "is_learner: false",
        ours: "is_learner: true",
        reason: "in its list, this etcd makes a voter of a learner whose URLs are changed",
    },
    Known {
        versions: "3.5.",
        scene: "a member that is gone",
        request: "Update",
        etcd: "DeadlineExceeded: no answer",
        ours: "NotFound: etcdserver: member not found",
        reason: "this etcd never answers when a member that was removed is to be moved",
    },
    Known {
        versions: "3.4.",
        scene: "turns",
        request: "Lock(",
        etcd: "turns/lock/33",
        ours: "refused: mutex: session is expired",
        reason: "this etcd gives a lock to who has lost its lease while it waited; later ones \
                 refuse as we do",
    },
    Known {
        versions: "3.",
        scene: "unreadable",
        request: "Raw",
        etcd: "Internal: grpc: error unmarshalling request",
        ours: "Internal: failed to decode Protobuf message",
        reason: "what is wrong with a message is told in the words of who reads it",
    },
    Known {
        versions: "3.",
        scene: "health",
        request: "nothing",
        etcd: "NotFound: unknown service",
        ours: "NotFound: service not registered",
        reason: "the code is what clients look at; the words are the library's",
    },
    Known {
        versions: "3.4.",
        scene: "web precondition",
        request: "/v3/",
        etcd: "412 Precondition Failed",
        ours: "400 Bad Request",
        reason: "etcd 3.5 has another status for this code, and so have we",
    },
    Known {
        versions: "3.4.",
        scene: "web services",
        request: "maintenance/alarm",
        etcd: "200 OK",
        ours: "raft_term",
        reason: "the header of this one answer was forgotten; etcd 3.5 has it too",
    },
    Known {
        versions: "3.4.",
        scene: "web pages",
        request: "/health",
        etcd: "\"health\": \"",
        ours: "\"reason\": \"",
        reason: "etcd 3.5 gives a reason too",
    },
];

/// Whether each of the differences was seen with this version; another may have fewer.
pub fn is_measured(version: &str) -> bool {
    ["3.4.23", "3.5.1"].contains(&version)
}
