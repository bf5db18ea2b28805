import type { AgentDetail, ToolDetail } from '../../../../shared/contract/agent/agent-detail.ts';
import { Json } from '../../ui/json.tsx';
import { Empty } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { formatDuration } from '../../ui/time.tsx';

const effects = {
  read: 'no side effects',
  idempotent: 'may be repeated with its key',
  once: 'takes effect once, and is never repeated',
} as const;

const approvals = {
  never: ['good', 'runs without a person'],
  depends: ['wait', 'a person decides about some calls'],
  always: ['wait', 'a person decides about every call'],
} as const;

/** Every tool with what the model sees of it and how its calls are guarded. */
export function Tools({ agent: { toolDetails, tools } }: { agent: AgentDetail }) {
  if (tools.length === 0 && !toolDetails?.length) return <Empty title="It has no tools." />;
  const known = new Set(toolDetails?.map(({ name }) => name));
  const others = tools.filter((name) => !known.has(name));
  return (
    <div class="stack">
      {toolDetails?.map((tool) => (
        <Tool key={tool.name} tool={tool} />
      ))}
      {others.length > 0 && (
        <p class="soft">
          {others.join(', ')}:{' '}
          {toolDetails ? 'tools of servers, which are asked for them in each run' : 'not known any closer'}
        </p>
      )}
    </div>
  );
}

function Tool({ tool }: { tool: ToolDetail }) {
  const { name, description, effect, trust, sensitivity, approval, timeoutMs, agent, deferred, parameters } = tool;
  const [tone, words] = approvals[approval];
  return (
    <section class="card stack" aria-label={name}>
      <div class="row between">
        <h2 class="mono">{name}</h2>
        <Status status={approval} tone={tone} label={words} />
      </div>
      <p>{description}</p>
      <dl class="facts">
        <dt>Effect</dt>
        <dd>
          {effect}, <span class="soft">{effects[effect]}</span>
        </dd>
        <dt>Results</dt>
        <dd>
          {trust}, {sensitivity}
        </dd>
        <dt>Time</dt>
        <dd>at most {formatDuration(timeoutMs)}</dd>
        {agent !== undefined && (
          <>
            <dt>Done by</dt>
            <dd>
              <a href={`/agents/${encodeURIComponent(agent)}`}>{agent}</a>
            </dd>
          </>
        )}
        {deferred && (
          <>
            <dt>Seen</dt>
            <dd>only after the model has searched for it</dd>
          </>
        )}
      </dl>
      <details>
        <summary>Arguments of {name}</summary>
        <Json value={parameters} />
      </details>
    </section>
  );
}
