//! Asking a person through the client, by elicitation.
//!
//! Answers for the form of the question and of the answer, in both protocol eras: with an opening the question is a request
//! to the client; without one it is the answer to the call, which the client makes again with what the person said. Leaves
//! out when somebody is asked.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use devloop_core::digest::sha256_hex;
use devloop_core::text::{harmless, harmless_lines};
use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams,
    ElicitationSchema, EnumSchema, InputRequest, InputRequiredResult, RequestId, ServerNotification, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, ServiceError};
use serde_json::Value;
use tokio::runtime::Handle;
use uuid::Uuid;

use super::answer::shortened;
use crate::call::{Approval, Approver, Ask, Boxed};

/// What the question is called in a call that is made again.
const QUESTION: &str = "approval";

/// The field of the answer, and what may stand in it.
const DECISION: &str = "decision";
const ONCE: &str = "allow once";
const SESSION: &str = "allow for this session";
const DENY: &str = "deny";

/// How many questions may be open; of more the oldest are forgotten, and put again.
const MOST_QUESTIONS: usize = 256;

/// The most characters of an input that a person is shown.
const SHOWN: usize = 2_000;

/// The person behind the client of one request.
#[derive(Debug)]
pub(super) struct Client {
    peer: Peer<RoleServer>,
    questions: Arc<Questions>,
    way: Way,
}

/// The questions that were put and not answered yet: an answer counts once.
#[derive(Debug, Default)]
pub(super) struct Questions {
    put: Mutex<VecDeque<String>>,
}

impl Questions {
    /// The question as the answer to a call.
    pub(super) fn put(&self, ask: &Ask) -> InputRequiredResult {
        let request = InputRequest::Elicitation(ElicitRequest::new(form(ask)));
        let requests = BTreeMap::from([(QUESTION.to_owned(), request)]);
        let state = format!("{}:{}", Uuid::now_v7(), name_of(ask));
        let mut put = self.put.lock().unwrap_or_else(PoisonError::into_inner);
        if put.len() == MOST_QUESTIONS {
            put.pop_front();
        }
        put.push_back(state.clone());
        InputRequiredResult::new(Some(requests), Some(state))
    }

    /// Whether this very question was put and is answered for the first time.
    fn take(&self, state: &str, ask: &Ask) -> bool {
        if state.split_once(':').is_none_or(|(_, name)| name != name_of(ask)) {
            return false;
        }
        let mut put = self.put.lock().unwrap_or_else(PoisonError::into_inner);
        let place = put.iter().position(|known| known == state);
        place.and_then(|place| put.remove(place)).is_some()
    }
}

#[derive(Debug)]
enum Way {
    /// The client takes requests.
    Request,
    /// The client makes the call again, and may have done so.
    Again { said: Option<Said> },
    /// The client asks nobody.
    None,
}

/// What came with a call that was made again.
#[derive(Debug)]
struct Said {
    answer: Value,
    /// Names the question that was answered.
    state: Option<String>,
}

impl Client {
    pub(super) fn new(
        context: &RequestContext<RoleServer>,
        questions: &Arc<Questions>,
        responses: Option<&BTreeMap<String, Value>>,
        state: Option<&str>,
    ) -> Self {
        let asks = context
            .client_capabilities()
            .and_then(|capabilities| capabilities.elicitation)
            // One that names no form at all is of the time when there was only one.
            .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none());
        let opened = context
            .protocol_version()
            .is_some_and(|version| version.has_initialize());
        let way = match (asks, opened) {
            (false, _) => Way::None,
            (true, true) => Way::Request,
            (true, false) => Way::Again {
                said: responses
                    .and_then(|responses| responses.get(QUESTION))
                    .map(|answer| Said {
                        answer: answer.clone(),
                        state: state.map(str::to_owned),
                    }),
            },
        };
        Self {
            peer: context.peer.clone(),
            questions: Arc::clone(questions),
            way,
        }
    }
}

impl Client {
    /// Asks, and tells the client when nobody wants to know any more.
    async fn asked(&self, request: ServerRequest) -> Result<ClientResult, ServiceError> {
        let options = PeerRequestOptions::default();
        let handle = self.peer.send_cancellable_request(request, options).await?;
        let mut open = Open {
            peer: &self.peer,
            id: Some(handle.id.clone()),
        };
        let answer = handle.await_response().await;
        open.id = None;
        answer
    }
}

/// A question that the client was asked.
struct Open<'a> {
    peer: &'a Peer<RoleServer>,
    /// Nothing once it was answered.
    id: Option<RequestId>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else {
            return;
        };
        let params = CancelledNotificationParam::new(Some(id), Some("the call was cancelled".to_owned()));
        let notification = ServerNotification::CancelledNotification(CancelledNotification::new(params));
        // Without a runtime there is no connection any more either.
        if let Ok(runtime) = Handle::try_current() {
            let peer = self.peer.clone();
            runtime.spawn(async move { peer.send_notification(notification).await });
        }
    }
}

impl Approver for Client {
    fn approve(&self, ask: Ask) -> Boxed<'_, Approval> {
        Box::pin(async move {
            match &self.way {
                Way::None => Approval::Nobody {
                    reason: "the client cannot ask (it has no elicitation)".to_owned(),
                },
                // An answer to another question is none.
                Way::Again { said: Some(said) }
                    if said
                        .state
                        .as_deref()
                        .is_some_and(|state| self.questions.take(state, &ask)) =>
                {
                    decision(&said.answer)
                }
                Way::Again { .. } => Approval::Later,
                Way::Request => {
                    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form(&ask)));
                    match self.asked(request).await {
                        Ok(ClientResult::ElicitResult(result)) => {
                            decision(&serde_json::to_value(result).unwrap_or_default())
                        }
                        Ok(_) => Approval::Nobody {
                            reason: "the client answered something else than was asked".to_owned(),
                        },
                        Err(error) => Approval::Nobody {
                            reason: format!("the client could not ask: {error}"),
                        },
                    }
                }
            }
        })
    }
}

/// Names a question, so that a yes to one is no yes to another.
fn name_of(ask: &Ask) -> String {
    sha256_hex(format!("{}\n{}\n{}", ask.tool, ask.signature, ask.input).as_bytes())
}

fn form(ask: &Ask) -> ElicitRequestParams {
    // A server gives its tools what titles it likes, and a model gives them what input it likes: a person sees all of it.
    let (title, reason) = (harmless(&shortened(&ask.title, 80)), harmless(&ask.reason));
    let mut message = format!("May `{}` run? {reason}", ask.tool);
    if title != ask.tool {
        let _ = write!(message, "\n\nIts title: {title}");
    }
    if ask.signature != ask.tool {
        let _ = write!(message, "\n\n{}", harmless(&ask.signature));
    }
    let input = serde_json::to_string_pretty(&ask.input).unwrap_or_default();
    let _ = write!(message, "\n\n{}", shortened(&harmless_lines(&input), SHOWN));
    let mut answers = vec![ONCE.to_owned()];
    if let Some(rule) = &ask.rule {
        answers.push(SESSION.to_owned());
        let _ = write!(message, "\n\nFor this session, `{}` would be allowed.", harmless(rule));
    }
    answers.push(DENY.to_owned());
    let schema = ElicitationSchema::builder()
        .required_enum_schema(DECISION, EnumSchema::builder(answers).build())
        .build_unchecked();
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema,
    }
}

/// What a person said. Whatever is no clear yes is a no.
fn decision(answer: &Value) -> Approval {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let action = text(answer.get("action")).unwrap_or_default();
    let decision = text(answer.get("content").and_then(|content| content.get(DECISION)));
    match (action.as_str(), decision.as_deref()) {
        ("accept", Some(ONCE)) => Approval::Once,
        ("accept", Some(SESSION)) => Approval::Session,
        ("accept", Some(DENY)) | ("decline" | "cancel", _) => Approval::Denied { reason: None },
        ("accept", _) => Approval::Denied {
            reason: Some("the answer says neither yes nor no".to_owned()),
        },
        _ => Approval::Denied {
            reason: Some("the client's answer cannot be read".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask() -> Ask {
        Ask {
            tool: "docs__remove".to_owned(),
            title: "Remove".to_owned(),
            signature: "docs__remove(a)".to_owned(),
            rule: Some("docs__remove".to_owned()),
            reason: "No rule allows it.".to_owned(),
            input: json!({ "path": "a" }),
        }
    }

    #[test]
    fn approval_only_a_clear_yes_is_one() {
        let answer = |action: &str, content: Value| decision(&json!({ "action": action, "content": content }));
        assert_eq!(answer("accept", json!({ "decision": ONCE })), Approval::Once);
        assert_eq!(answer("accept", json!({ "decision": SESSION })), Approval::Session);
        for (action, content) in [
            ("accept", json!({ "decision": DENY })),
            ("accept", json!({ "decision": "sure" })),
            ("accept", json!({ "decision": true })),
            ("accept", json!(null)),
            ("decline", json!({ "decision": ONCE })),
            ("cancel", json!(null)),
            ("what", json!({ "decision": ONCE })),
        ] {
            assert!(
                matches!(answer(action, content.clone()), Approval::Denied { .. }),
                "{action} {content}"
            );
        }
        assert!(matches!(decision(&json!("accept")), Approval::Denied { .. }));
    }

    #[test]
    fn approval_names_change_with_the_question() {
        let one = name_of(&ask());
        assert_eq!(one, name_of(&ask()));
        let other = Ask {
            input: json!({ "path": "b" }),
            ..ask()
        };
        assert_ne!(one, name_of(&other));
    }

    #[test]
    fn approval_an_answer_counts_once_and_for_its_question_alone() {
        let questions = Questions::default();
        let state = |put: InputRequiredResult| put.request_state.unwrap();
        let (one, two) = (state(questions.put(&ask())), state(questions.put(&ask())));
        let other = Ask {
            input: json!({ "path": "b" }),
            ..ask()
        };
        assert!(!questions.take(&one, &other));
        assert!(questions.take(&one, &ask()) && !questions.take(&one, &ask()));
        assert!(questions.take(&two, &ask()));
        assert!(!questions.take(&format!("x:{}", name_of(&ask())), &ask()), "never put");
        let first = state(questions.put(&ask()));
        for _ in 0..MOST_QUESTIONS {
            questions.put(&ask());
        }
        assert!(!questions.take(&first, &ask()), "forgotten");
    }

    #[test]
    fn approval_nothing_in_a_question_hides_or_moves_anything() {
        let hidden = "a\u{202E}b\u{200B}c\u{FEFF}\u{7F}\u{9B}\n\r";
        let ask = Ask {
            title: hidden.to_owned(),
            signature: hidden.to_owned(),
            rule: Some(hidden.to_owned()),
            reason: hidden.to_owned(),
            input: json!({ "path": hidden, hidden: [hidden] }),
            ..ask()
        };
        let form = serde_json::to_value(form(&ask)).unwrap();
        let message = form["message"].as_str().unwrap();
        let raw = |c: char| c != '\n' && (c.is_control() || devloop_core::text::is_invisible(c));
        assert!(!message.contains(raw), "{message:?}");
        assert!(
            message.contains(r#""path": "a\u{202e}b\u{200b}c\u{feff}\u{7f}\u{9b}\n\r""#),
            "{message}"
        );
    }

    #[test]
    fn approval_remembering_is_offered_where_a_rule_allows_it() {
        let offers = |ask: &Ask| {
            let form = serde_json::to_value(form(ask)).unwrap();
            form["requestedSchema"]["properties"][DECISION]["enum"].clone()
        };
        assert_eq!(offers(&ask()), json!([ONCE, SESSION, DENY]));
        let once = Ask { rule: None, ..ask() };
        assert_eq!(offers(&once), json!([ONCE, DENY]));
    }
}
