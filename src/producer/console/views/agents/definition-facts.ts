type Definition = Readonly<Record<string, unknown>>;

/** The models that are tried after its own, as `provider/model` where a provider is named. */
export function fallbacksOf({ fallbackModels }: Definition): readonly string[] {
  if (!Array.isArray(fallbackModels)) return [];
  return fallbackModels.flatMap((entry: unknown) => {
    if (typeof entry === 'string') return [entry];
    const { model, provider } = recordOf(entry);
    if (typeof model !== 'string') return [];
    return [typeof provider === 'string' ? `${provider}/${model}` : model];
  });
}

export interface Facts {
  readonly title: string;
  readonly facts: readonly (readonly [name: string, value: string])[];
}

/** Limits, budget and guards of an agent in words. */
export function factsOf(definition: Definition): readonly Facts[] {
  const { limits, budget, trust, interaction, approvals, dataFlowPolicy, policies, sensitivity } = definition;
  const { ttlMs, approvers } = recordOf(approvals);
  const rules = Array.isArray(policies) ? policies.length : 0;
  const guards = [
    ['Trust', trust],
    ['Sensitivity', sensitivity],
    ['People', interaction],
    ['Approvals needed', approvers],
    ['Approvals expire', typeof ttlMs === 'number' ? `after ${spanOf(ttlMs)}` : undefined],
    ['Data flow', recordOf(dataFlowPolicy)['mode']],
    ['Policies', rules === 0 ? 'none of its own' : `${rules} of its own`],
  ] as const;
  return [
    { title: 'Limits', facts: entriesOf(recordOf(limits)) },
    { title: 'Budget of a run', facts: entriesOf(recordOf(budget)) },
    {
      title: 'Guards',
      facts: guards.flatMap(([name, value]) => (value === undefined ? [] : [[name, textOf(value)] as const])),
    },
  ];
}

function spanOf(ms: number): string {
  const [count, unit] = ms >= 7_200_000 ? [ms / 3_600_000, 'hour'] : [ms / 60_000, 'minute'];
  const whole = Math.round(count * 10) / 10;
  return `${whole} ${unit}${whole === 1 ? '' : 's'}`;
}

function entriesOf(record: Definition): Facts['facts'] {
  return Object.entries(record).map(([name, value]) => [name, textOf(value)] as const);
}

function textOf(value: unknown): string {
  if (typeof value === 'number') return value.toLocaleString('en-US');
  return typeof value === 'string' ? value.replaceAll('_', ' ') : JSON.stringify(value);
}

function recordOf(value: unknown): Definition {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Definition) : {};
}
