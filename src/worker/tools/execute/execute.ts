import type { ToolOptions } from '../../../shared/contract/agent/agent.ts';
import type { PendingItem } from '../../../shared/contract/event.ts';
import type { ToolTraits } from '../../guards/loop.ts';
import { carriesSecret, hadSecret } from '../../guards/taint.ts';
import { fingerprint } from './args.ts';
import { askedAs, askedAt } from './ask-id.ts';
import type { Batch, ToolHost, ToolRunContext } from './batch.ts';
import type { StepCall, UnknownCall } from '../../../shared/contract/journal/turn-state.ts';
import { classificationOf, endEvent } from './conclude.ts';
import { isClean } from './ask-flow.ts';
import { FlowTrail, isJudged, type FlowPast } from './flow-trail.ts';
import { configuredTools } from '../configure.ts';
import { qualifiedNames, type Collisions } from '../names.ts';
import { prepareCall } from './prepare.ts';
import { createToolRegistry, type Advertisement, type ToolRegistry } from '../registry.ts';
import { stepResults } from './step-results.ts';
import type { Tool } from '../tool.ts';
import { runStepCalls, type BatchEnd } from './run-batch.ts';

/** Runs the tools of one agent for one run. */
export interface ToolExecutor {
  /** The tools that the model sees, once it has found these, without those that were withdrawn. */
  advertised(promoted: readonly string[], withdrawn?: readonly string[]): readonly Advertisement[];
  /** What the tool of this name is, as far as repeats of it are concerned. */
  traitsOf(name: string): ToolTraits;
  /** What people read about the tool of this name; undefined where there is none. */
  classificationOf(name: string): PendingItem['classification'];
  /** The server's tool that has this name now, as `mcp:<server>/<tool>`; undefined for code of the worker. */
  sourceOf(name: string): string | undefined;
  /**
   * The calls of a step that have a side effect and will start without asking a person. What the data-flow policy judges is
   * judged here, and is among them where nothing stands against it.
   */
  startingFreely(step: ComingStep): readonly StepCall[];
  /**
   * Runs what is open among the calls of a step, given in call order. Rejects only when something cannot be recorded;
   * then nothing more is started.
   */
  run(calls: readonly StepCall[], host: ToolHost, signal: AbortSignal): Promise<BatchEnd>;
}

/** A step whose calls are about to be run. */
export interface ComingStep {
  readonly calls: readonly StepCall[];
  /** All that the run has read before it. */
  readonly past: FlowPast;
  /** Tools that the model may not call for the rest of the turn. */
  readonly withdrawn: readonly string[];
}

export interface ToolSet {
  /** As they are now: asked again for every step, because servers may change their tools. */
  tools(): readonly Tool[];
  readonly collisions?: Collisions;
  /** Does the model see it? Default: yes. The others are there for scripts. */
  readonly advertises?: ((tool: Tool) => boolean) | undefined;
}

/** Throws `validation` for tools of the same name where collisions are the author's to solve. */
export function createToolExecutor(given: readonly Tool[] | ToolSet, context: ToolRunContext): ToolExecutor {
  const set: ToolSet = Array.isArray(given) ? { tools: () => given as readonly Tool[] } : (given as ToolSet);
  const registryOf = latest(set, context.options ?? {});
  const flow = context.flow && new FlowTrail(context.flow);
  registryOf();
  return {
    advertised(promoted, withdrawn = []) {
      const tools = registryOf().advertised(promoted);
      return withdrawn.length === 0 ? tools : tools.filter(({ name }) => !withdrawn.includes(name));
    },
    traitsOf(name) {
      const { mayRepeat = false, effect, delegate } = registryOf().find(name) ?? {};
      return { mayRepeat, reads: effect === 'read', delegates: delegate !== undefined };
    },
    classificationOf(name) {
      const tool = registryOf().find(name);
      return tool && classificationOf(tool);
    },
    sourceOf: (name) => {
      const source = registryOf().find(name)?.source;
      return source && qualifiedNames(source)[0];
    },
    startingFreely: (step) => startingFreely(step, registryOf(), { context, flow }),
    async run(calls, host, signal) {
      const batch = batchOf({ calls, registry: registryOf(), context, host, flow }, signal);
      const open = calls.filter((call) => call.status !== 'tool_result');
      return await runStepCalls(await Promise.all(open.map((call) => prepareCall(call, batch.preparation))), batch);
    },
  };
}

function startingFreely(
  { calls, past, withdrawn }: ComingStep,
  registry: ToolRegistry,
  { context, flow }: Pick<Batch, 'context' | 'flow'>,
): readonly StepCall[] {
  const step = { calls, host: { past }, preparation: { registry } };
  // The others are judged when the step runs, in their order: what is remembered must not be ahead of them.
  let isAhead = false;
  return calls.filter((call) => {
    const tool = registry.meant(call);
    if (!tool || withdrawn.includes(tool.name)) return false;
    const isFree = mayStart(tool, context);
    if (!flow || !isJudged(tool, flow.policy)) return isFree;
    isAhead ||= !isFree || !isClean(call, tool, { flow, step });
    return !isAhead;
  });
}

/** Has the tool a side effect, and nothing but the data-flow policy that may stop a call of it, or make it wait? */
function mayStart(tool: Tool, { policy }: ToolRunContext): boolean {
  if (tool.effect === 'read' || tool.pin) return false;
  if (policy && (!policy.isEmpty || tool.facts)) return false;
  return tool.needsApproval === false && !tool.asks && !tool.delegate && !tool.deferLoading;
}

/** The registry of the tools that there are now, made again when they change. */
function latest(set: ToolSet, options: Readonly<Record<string, ToolOptions>>): () => ToolRegistry {
  let tools: readonly Tool[] | undefined;
  let registry: ToolRegistry | undefined;
  return () => {
    const now = set.tools();
    if (!registry || tools !== now) {
      tools = now;
      registry = createToolRegistry(configuredTools(now, options, set.collisions), set.advertises);
    }
    return registry;
  };
}

interface Step extends Pick<Batch, 'calls' | 'context' | 'host' | 'flow'> {
  readonly registry: ToolRegistry;
}

function batchOf({ calls, registry, context, host, flow }: Step, outer: AbortSignal): Batch {
  const lost = new AbortController();
  const results = stepResults(calls, {
    record: (entries, events) => host.record(entries, events),
    eventOf: (call) => {
      const { result } = call;
      return result && result.handoff === undefined ? endEvent({ call }, result, 0, host.redactor) : null;
    },
    onLost: (error) => lost.abort(error),
  });
  const { secrets } = context;
  const given = new Set(host.asked);
  return {
    context,
    host,
    preparation: {
      registry,
      promoted: host.promoted,
      withdrawn: host.withdrawn,
      redactor: host.redactor,
      secrets,
      source: { ...context.about, runId: context.runId, metadata: context.metadata, inputs: context.inputs },
      carriesSecret: (args) => hadSecret(args) || (secrets !== undefined && carriesSecret(args, secrets.values())),
    },
    signal: AbortSignal.any([outer, lost.signal]),
    results,
    unknown: new Set(host.unknownCalls.map(printOf)),
    calls,
    asks: [],
    children: [],
    flow,
    scripts: new Map(),
    denied: new Map(),
    needPeople: new Map(),
    grants: [],
    found: new Map(),
    onWait: [],
    fatal: [],
    newAskId(call) {
      // Models repeat ids, and a decision must never meet another question than the one that was asked.
      const own = askedAs(call.id);
      const placed = askedAt(call.id, host.step, call.index);
      let id = given.has(own) ? placed : own;
      // The same call is asked about again when its tool has changed meanwhile.
      for (let again = 2; given.has(id); again++) id = `${placed}:${again}`;
      given.add(id);
      return id;
    },
  };
}

function printOf(call: UnknownCall): string {
  return 'fingerprint' in call ? call.fingerprint : fingerprint(call.name, call.args);
}
