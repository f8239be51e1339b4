//! The tools, a file per group; each turns checked arguments into an answer.

pub(crate) mod batch;
mod crawl;
mod extract;
pub(crate) mod llms;
pub(crate) mod map;
mod read;
mod render;
pub(crate) mod results;
mod scrape;
mod spec;
mod status;
mod structured;
mod version;

use std::time::Duration;

use proto::v1::control_request::Order;
use proto::v1::{SessionSpec, SessionStatus};
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use serde_json::Value;

use crate::Shared;
use crate::answer::Answer;
use crate::args::Args;
use crate::error::Fault;
use crate::jobs;
use crate::running::Running;
use crate::table::ToolId;
use crate::wait;

pub(crate) use status::sentence;

/// A client that takes tasks waits this long for an answer before it gets one.
const TASK_AFTER: Duration = Duration::from_secs(1);

/// How a wait ended.
enum Waited {
    Status(Box<SessionStatus>),
    /// The client asks for the end by itself.
    Task(Answer),
}

/// One call with all it needs.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) args: Args,
    pub(crate) context: &'a RequestContext<RoleServer>,
    pub(crate) running: &'a Running,
}

impl Call<'_> {
    /// Starts a session that ends with this call's cancellation.
    async fn start(&self, spec: SessionSpec) -> Result<SessionStatus, Fault> {
        let status = self.shared.sessions.start(spec).await?;
        tracing::Span::current().record("session", status.session_id.as_str());
        if self.running.started(&self.context.id, &status.session_id) {
            return Ok(self
                .shared
                .sessions
                .control(&status.session_id, Order::Cancel)
                .await?);
        }
        Ok(status)
    }

    /// Waits for a session's end as long as the caller asked; where the client takes tasks, only a moment.
    async fn wait(&self, begun: SessionStatus) -> Result<Waited, Fault> {
        let asked = self.args.wait(self.shared.config.max_wait);
        let is_task = !asked.is_zero() && jobs::may_be_task(self.context);
        let span = if is_task {
            asked.min(TASK_AFTER)
        } else {
            asked
        };
        let status = wait::wait(self.shared, begun, span, self.context).await?;
        if !is_task || wait::is_over(&status) {
            return Ok(Waited::Status(Box::new(status)));
        }
        let mut answer = Answer::new(String::new(), Value::Null).of_session(&status.session_id);
        answer.task = Some(Box::new(jobs::task(&status)));
        Ok(Waited::Task(answer))
    }

    fn budget(&self) -> usize {
        self.args.budget(&self.shared.config)
    }
}

pub(crate) async fn run(tool: ToolId, call: &Call<'_>) -> Result<Answer, Fault> {
    match tool {
        ToolId::Scrape => Box::pin(scrape::scrape(call)).await,
        ToolId::FetchUrl => Box::pin(scrape::fetch_url(call)).await,
        ToolId::Crawl => Box::pin(crawl::crawl(call)).await,
        ToolId::Map => Box::pin(map::map(call)).await,
        ToolId::BatchScrape => Box::pin(batch::batch_scrape(call)).await,
        ToolId::CrawlStatus => Box::pin(status::status(call)).await,
        ToolId::CrawlControl => Box::pin(status::control(call)).await,
        ToolId::CrawlResults => Box::pin(results::crawl_results(call)).await,
        ToolId::ReadResult => Box::pin(read::read_result(call)).await,
        ToolId::GetBatchResults => Box::pin(batch::get_batch_results(call)).await,
        ToolId::Download => Box::pin(extract::download(call)).await,
        ToolId::ExtractText => Box::pin(extract::text(call)).await,
        ToolId::ExtractLinks => Box::pin(extract::links(call)).await,
        ToolId::ExtractMetadata => Box::pin(extract::metadata(call)).await,
        ToolId::ExtractContent => Box::pin(extract::content(call)).await,
        ToolId::ScrapeStructured => Box::pin(structured::scrape_structured(call)).await,
        ToolId::GenerateLlmsTxt => Box::pin(llms::generate(call)).await,
        ToolId::GetVersion => Box::pin(version::get_version(call)).await,
    }
}
