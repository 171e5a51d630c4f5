from docagent_rl.actions.base import (
    Action as Action,
    Answer as Answer,
    Box as Box,
    Crop as Crop,
    Fetch as Fetch,
    Finish as Finish,
    Grammar as Grammar,
    Invalid as Invalid,
    InvalidReason as InvalidReason,
    ParsedTurn as ParsedTurn,
    Read as Read,
    Search as Search,
    Select as Select,
    Span as Span,
    StopCause as StopCause,
)
from docagent_rl.actions.grammar import (
    TagGrammar as TagGrammar,
    bad_argument as bad_argument,
    read_answer as read_answer,
    read_box as read_box,
    read_search as read_search,
)
from docagent_rl.base.errors import (
    InfrastructureError as InfrastructureError,
    UserError as UserError,
)
from docagent_rl.base.prompts import (
    PromptSpec as PromptSpec,
    PromptTemplate as PromptTemplate,
)
from docagent_rl.documents import (
    PageRef as PageRef,
    PageRegion as PageRegion,
)
from docagent_rl.documents.display import DisplayRule as DisplayRule
from docagent_rl.documents.store import DocumentStore as DocumentStore
from docagent_rl.envs.base import (
    AssistantTurn as AssistantTurn,
    DocEnv as DocEnv,
    EndReason as EndReason,
    EnvState as EnvState,
    ImagePart as ImagePart,
    OutcomeMetrics as OutcomeMetrics,
    Message as Message,
    Observation as Observation,
    Part as Part,
    RewardTerms as RewardTerms,
    Role as Role,
    StepResult as StepResult,
    TextPart as TextPart,
    TokenTerm as TokenTerm,
    UnknownActionError as UnknownActionError,
    measured as measured,
)
from docagent_rl.envs.checks import references as references
from docagent_rl.envs.effects import (
    Answered as Answered,
    Candidates as Candidates,
    Effect as Effect,
    EntriesRead as EntriesRead,
    Hits as Hits,
    Magnified as Magnified,
    NoHit as NoHit,
    NoNewPage as NoNewPage,
    Nothing as Nothing,
    NothingShown as NothingShown,
    OwnEffect as OwnEffect,
    PagesShown as PagesShown,
    Selected as Selected,
)
from docagent_rl.envs.outcome import (
    NO_ANSWER as NO_ANSWER,
    UNJUDGED as UNJUDGED,
    Outcome as Outcome,
    OutcomeState as OutcomeState,
)
from docagent_rl.envs.services import (
    EnvServices as EnvServices,
    RetrieverService as RetrieverService,
)
from docagent_rl.envs.shown_page import (
    EntryRecord as EntryRecord,
    NamedPage as NamedPage,
    ShownPage as ShownPage,
)
from docagent_rl.envs.system import (
    EnvFactory as EnvFactory,
    System as System,
)
from docagent_rl.envs.tool_env import (
    ToolConfig as ToolConfig,
    ToolEnv as ToolEnv,
)
from docagent_rl.envs.turn_log import (
    LoggedTurn as LoggedTurn,
    RefusedError as RefusedError,
    TurnLog as TurnLog,
)
from docagent_rl.envs.turn_record import (
    ActionRecord as ActionRecord,
    TurnRecord as TurnRecord,
    WrittenAnswer as WrittenAnswer,
)
from docagent_rl.envs.views import (
    Display as Display,
    SearchScope as SearchScope,
    View as View,
    crop_view as crop_view,
    page_view as page_view,
)
