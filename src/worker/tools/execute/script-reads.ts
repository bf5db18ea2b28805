import { isUntrusted, lessTrusted, type TrustClass } from '../../../shared/contract/agent/trust.ts';
import { leastTrusted } from '../../../shared/contract/flow-label.ts';
import type { StepCall } from '../../../shared/contract/journal/turn-state.ts';
import {
  maxFlowSources,
  lessPublic,
  type FlowLabel,
  type FlowSource,
  type Sensitivity,
} from '../../../shared/contract/message.ts';
import type { FlowMemory } from '../../guards/flow/memory.ts';
import { scriptToolName } from '../names.ts';
import { asMessage, type FlowStep, type FlowTrail } from './flow-trail.ts';
import type { ReadyCall } from './prepare.ts';

/** A result that a script has got. It never reaches the conversation; what the script makes of it does. */
export interface ScriptRead {
  readonly text: string;
  /** What the script called the tool with, as JSON. */
  readonly args: string;
  readonly source: FlowSource;
  readonly sensitivity: Sensitivity;
  /** Of what other tools or agents brought. */
  readonly flow?: FlowLabel | undefined;
}

/** A step whose scripts are followed. */
interface ScriptStep extends FlowStep {
  /** Absent: no data-flow policy is on. */
  readonly flow: FlowTrail | undefined;
  /** By place of a script's call. */
  readonly scripts: Map<number, ScriptReads>;
}

interface ScriptOrigin {
  readonly trust: TrustClass;
  readonly sensitivity: Sensitivity;
}

/** What the calls of a script have read and sent, and how far that is trusted. */
export class ScriptReads {
  readonly #script: StepCall;
  /** Of the least trusted result. Absent: there is none yet. */
  #trust: TrustClass | undefined;
  #sensitivity: Sensitivity = 'public';
  readonly #sources = new Map<string, FlowSource>();
  /** Until the memory is there. */
  readonly #before: Noted[] = [];
  #memory: FlowMemory | undefined;

  constructor(script: StepCall) {
    this.#script = script;
  }

  /** The least trusted and the least public of what was read. Undefined: nothing was. */
  get worst(): ScriptOrigin | undefined {
    return this.#trust && { trust: this.#trust, sensitivity: this.#sensitivity };
  }

  read(read: ScriptRead, { flow }: Pick<ScriptStep, 'flow'>): void {
    const { source, sensitivity, flow: label } = read;
    this.#trust = lessTrusted(source.trust, this.#trust);
    this.#sensitivity = lessPublic(sensitivity, this.#sensitivity);
    const untrusted = label?.sources ?? (isUntrusted(source.trust) ? [source] : []);
    for (const each of untrusted) this.#sources.set(`${each.trust} ${each.name}`, each);
    if (flow) this.#note(read);
  }

  /** A call of the script is about to be made. */
  send(call: Sent, { flow }: Pick<ScriptStep, 'flow'>): void {
    if (flow) this.#note(call);
  }

  /** All that came before the next call of the script: what the run and what the script has read. Asked only with a policy. */
  memory(step: ScriptStep): FlowMemory {
    if (this.#memory) return this.#memory;
    const { flow } = step;
    if (!flow) throw new Error('there is no data-flow policy');
    this.#memory = flow.forScript(this.#script, step);
    for (const each of this.#before.splice(0)) addTo(this.#memory, each);
    return this.#memory;
  }

  /** For what the script returns. Its author has read what the run has read. */
  labelOf(text: string, step: ScriptStep): FlowLabel | undefined {
    if (step.flow) return this.memory(step).labelOf(text);
    if (this.#sources.size === 0) return undefined;
    return { sources: [...this.#sources.values()].slice(0, maxFlowSources), sensitivity: this.#sensitivity };
  }

  /** How far all of this and what the run has read is trusted: for a text of the script that is kept without its label. */
  seen(step: ScriptStep): ScriptOrigin | undefined {
    if (!step.flow) return this.worst;
    const { sources, sensitivity } = this.memory(step).seen;
    const trust = lessTrusted(this.#trust ?? 'built-in', leastTrusted({ sources: [...sources] }));
    return { trust, sensitivity: lessPublic(sensitivity, this.#sensitivity) };
  }

  #note(each: Noted): void {
    if (this.#memory) addTo(this.#memory, each);
    else this.#before.push(each);
  }
}

type Sent = Pick<StepCall, 'id' | 'name' | 'args'>;
type Noted = ScriptRead | Sent;

/** What the script with this call has read; one that has read nothing yet, too. */
export function readsOf(index: number, { scripts, calls }: Pick<ScriptStep, 'scripts' | 'calls'>): ScriptReads {
  const known = scripts.get(index);
  if (known) return known;
  const script = calls.find((call) => call.index === index);
  if (!script) throw new Error(`the step has no call ${index}`);
  const reads = new ScriptReads(script);
  scripts.set(index, reads);
  return reads;
}

/** The labels of what a script returns, or fails with. Undefined: the call is no script, or its result is like any other. */
export function labelsOfScript(
  { tool, call, parentToolCallId }: ReadyCall,
  step: ScriptStep,
):
  | (Pick<ScriptReads, 'worst'> & { kept: ScriptOrigin | undefined; flowOf(text: string): FlowLabel | undefined })
  | undefined {
  if (parentToolCallId !== undefined) return undefined;
  // One that has read nothing, too: its author has.
  const isFollowed = step.flow && tool.name === scriptToolName && !tool.source;
  const reads = isFollowed ? readsOf(call.index, step) : step.scripts.get(call.index);
  return reads && { worst: reads.worst, kept: reads.seen(step), flowOf: (text) => reads.labelOf(text, step) };
}

function addTo(memory: FlowMemory, each: Noted): void {
  if (!('text' in each)) memory.add(asMessage(each));
  else if (each.flow) memory.addLabelled(each.text, each.flow);
  else memory.addRead(each.text, each.source, each.sensitivity, each.args);
}
