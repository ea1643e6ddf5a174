//! What operators ask of Kontiki beyond the API of etcd, through the same client as all the rest.

use kontiki_client::{Client, ClientError, Retry};

use crate::proto::kontiki::admin_client::AdminClient;
use crate::proto::kontiki::{
    ChangeMembersRequest, ChangeMembersResponse, InspectRequest, InspectResponse,
    TransferLeadershipRequest, TransferLeadershipResponse,
};

/// The calls of Kontiki's own service. Other stores refuse them: they do not know it.
pub trait Admin {
    /// Changes the members, all changes together or none.
    ///
    /// # Errors
    /// When no endpoint answers, the cluster refuses, or the outcome is unknown.
    fn change_members(
        &self,
        request: ChangeMembersRequest,
    ) -> impl Future<Output = Result<ChangeMembersResponse, ClientError>> + Send;

    /// Hands leadership over, to a member or, with zero, to the best there is.
    ///
    /// # Errors
    /// When no endpoint answers, the cluster refuses, or the outcome is unknown.
    fn transfer_leadership(
        &self,
        to: u64,
    ) -> impl Future<Output = Result<TransferLeadershipResponse, ClientError>> + Send;

    /// How the first endpoint that answers is, and what it knows of the others.
    ///
    /// # Errors
    /// When no endpoint answers, or is none of Kontiki's.
    fn inspect(&self) -> impl Future<Output = Result<InspectResponse, ClientError>> + Send;
}

impl Admin for Client {
    async fn change_members(
        &self,
        request: ChangeMembersRequest,
    ) -> Result<ChangeMembersResponse, ClientError> {
        let ask = |channel, request| async move {
            AdminClient::new(channel).change_members(request).await
        };
        self.call(Retry::Never, request, ask).await
    }

    async fn transfer_leadership(
        &self,
        to: u64,
    ) -> Result<TransferLeadershipResponse, ClientError> {
        let ask = |channel, request| async move {
            AdminClient::new(channel).transfer_leadership(request).await
        };
        self.call(Retry::Never, TransferLeadershipRequest { to }, ask).await
    }

    async fn inspect(&self) -> Result<InspectResponse, ClientError> {
        let ask =
            |channel, request| async move { AdminClient::new(channel).inspect(request).await };
        self.call(Retry::Safe, InspectRequest {}, ask).await
    }
}
