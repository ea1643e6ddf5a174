//! Certificates on both sides: only who has one of the cluster's authority gets through.

use raft_core::NodeId;
use rustls_pki_types::ServerName;
use tonic::Request;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};
use webpki::EndEntityCert;

use crate::refusal::Mismatch;

/// The certificates of a node, as PEM. The node's own is used in both directions.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The authority that signs the certificates of all nodes, and of nobody else.
    pub authority_pem: Vec<u8>,
    /// The certificate of this node, with what leads up to the authority.
    pub certificate_pem: Vec<u8>,
    /// Its private key.
    pub key_pem: Vec<u8>,
    /// With `Some("raft.example")`, the certificate of node `a1` (the id in hexadecimal, as it
    /// is printed) must have the DNS name `a1.raft.example`, and no node can pass for another.
    /// With `None` every certificate of the authority may speak for every node, and must name
    /// the host that peers connect to.
    pub node_domain: Option<String>,
}

impl TlsConfig {
    fn name(&self, node: NodeId) -> Option<String> {
        self.node_domain.as_ref().map(|domain| format!("{node}.{domain}"))
    }

    fn identity(&self) -> Identity {
        Identity::from_pem(&self.certificate_pem, &self.key_pem)
    }

    /// For a node whose id is not known: its certificate has to name the host that is called.
    pub(crate) fn anyone(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.authority_pem))
            .identity(self.identity())
    }

    pub(crate) fn client(&self, peer: NodeId) -> ClientTlsConfig {
        let config = self.anyone();
        match self.name(peer) {
            Some(name) => config.domain_name(name),
            None => config,
        }
    }

    pub(crate) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(self.identity())
            .client_ca_root(Certificate::from_pem(&self.authority_pem))
    }

    /// Whether the caller's certificate names `from`. That the authority signed it was checked
    /// when the connection was made.
    pub(crate) fn check<T>(
        &self,
        request: &Request<T>,
        from: NodeId,
        node: NodeId,
    ) -> Result<(), Mismatch> {
        let Some(name) = self.name(from) else { return Ok(()) };
        let certificates = request.peer_certs();
        let named = certificates.as_deref().and_then(|all| all.first()).is_some_and(|first| {
            let Ok(certificate) = EndEntityCert::try_from(first) else { return false };
            let Ok(subject) = ServerName::try_from(name.as_str()) else { return false };
            certificate.verify_is_valid_for_subject_name(&subject).is_ok()
        });
        match named {
            true => Ok(()),
            false => Err(Mismatch::Certificate { from, name, node }),
        }
    }
}
