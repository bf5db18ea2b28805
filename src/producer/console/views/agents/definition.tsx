import type { AgentDetail } from '../../../../shared/contract/agent/agent-detail.ts';
import { factsOf, fallbacksOf } from './definition-facts.ts';
import { Unknown } from './unknown.tsx';

/** What its author wrote, with the defaults that are in place. */
export function Definition({ agent }: { agent: AgentDetail }) {
  const { definition } = agent;
  if (!definition) return <Unknown />;
  const { instructions } = definition;
  return (
    <div class="stack">
      <section aria-labelledby="instructions-title">
        <h2 id="instructions-title">Instructions</h2>
        {typeof instructions === 'string' && instructions !== '' ? (
          <pre class="card wraps" tabIndex={0} aria-label="Instructions">
            {instructions}
          </pre>
        ) : (
          <p class="soft">
            Its definition has none; a program may make them for each run. The page of a run shows what its model was
            given.
          </p>
        )}
      </section>
      <section aria-labelledby="models-title">
        <h2 id="models-title">Models</h2>
        <ol>
          <li>{agent.model}</li>
          {fallbacksOf(definition).map((name) => (
            <li key={name}>
              {name} <span class="soft">when those above fail</span>
            </li>
          ))}
        </ol>
      </section>
      {factsOf(definition).map(({ title, facts }) => (
        <section key={title} aria-label={title}>
          <h2>{title}</h2>
          {facts.length === 0 ? (
            <p class="soft">The defaults.</p>
          ) : (
            <dl class="facts">
              {facts.map(([name, value]) => (
                <div key={name} class="fact">
                  <dt>{name}</dt>
                  <dd>{value}</dd>
                </div>
              ))}
            </dl>
          )}
        </section>
      ))}
    </div>
  );
}
