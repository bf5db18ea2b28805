import { jsonOr } from '../../../shared/base/json.ts';
import { clip } from '../../../shared/base/text.ts';
import { isUntrusted, trustClass, type TrustClass } from '../../../shared/contract/agent/trust.ts';
import {
  maxFlowSources,
  sensitivity as sensitivityLabel,
  textOf,
  toolCallsOf,
  type FlowLabel,
  type FlowSource,
  type Message,
  type Sensitivity,
  type ToolMessage,
} from '../../../shared/contract/message.ts';
import { labelledParts } from './label.ts';
import { unitsOf } from './normalise.ts';
import { foundOf, type InputFile } from '../../../shared/contract/input-parts.ts';
import { sourceOfFile } from '../../../shared/contract/flow-label.ts';
import { minPiece, Needle } from './spans.ts';
import { opaqueText, TrackedText, trackedFor } from './tracked-text.ts';
import { brings, vouches, type Value } from './values.ts';

/** A text that strangers may have written, and who brought it. */
export interface UntrustedText {
  readonly tracked: TrackedText;
  readonly source: FlowSource;
  /** How many calls of sinks had been made when it was read: those cannot have carried it. */
  readonly sentBefore: number;
  /** It is what a server says of its tools: `mcp:<server>/`, with which the names of these begin. */
  readonly describes?: string;
}

/** The memory as one call is judged by it. */
export type JudgedMemory = Pick<
  FlowMemory,
  'seen' | 'untrusted' | 'sent' | 'vouchesFor' | 'vouchesForPassage' | 'vouching' | 'isFrom'
>;

/** A call of a sink that was made before. */
export interface SentCall {
  /** All names of the tool. */
  readonly names: readonly string[];
  /** Undefined where the model wrote no JSON. */
  readonly args: unknown;
  /** As the model wrote them. */
  readonly text: string;
}

/** A text that vouches for what stands in it. */
interface TrustedText {
  readonly tracked: TrackedText;
  /** How many arguments the model had written by then: what stands in them may be an echo. */
  readonly writtenBefore: number;
}

/** Who may have given a value. */
export type Origin = { readonly kind: 'user' } | { readonly kind: 'tool'; readonly name: string };

/**
 * All names by which rules mean a tool that a conversation calls so. `trust`: of a result of it. None where that cannot be one of
 * the tool that has the name here.
 */
export type NamesOf = (toolName: string, trust?: TrustClass) => readonly string[];

const asksPeople = 'ask_user';
const maxNameChars = 256;

/**
 * Everything that a run has read and sent, by how far it is trusted. Only grows; the same messages in the same order make the
 * same memory, on every worker.
 *
 * Three kinds of text: **trusted** ones vouch for what stands in them (what people and the agent's author wrote, results of
 * trusted tools), **untrusted** ones make what they bring a finding (results of untrusted classes, the parts of a label), and
 * all others do neither: what a model wrote, the rest of a labelled text. A result of a trusted tool does not vouch for what
 * the model has put into a call itself once it had read untrusted text: a tool that repeats its arguments launders nothing.
 * What a person answers to `ask_user` vouches in any case.
 */
export class FlowMemory {
  readonly #isSink: (toolName: string) => boolean;
  readonly #namesOf: NamesOf;
  readonly #untrusted: UntrustedText[] = [];
  readonly #people: TrackedText[];
  readonly #trusted: TrustedText[] = [];
  readonly #results = new Map<string, TrustedText[]>();
  readonly #written: TrackedText[] = [];
  readonly #sent: SentCall[] = [];
  readonly #sources = new Map<string, FlowSource>();
  #sensitivity: Sensitivity = 'public';

  /**
   * `trustedTexts`: the agent's instructions and whatever else its author wrote. `namesOf`: the qualified name of a server's
   * tool first.
   */
  constructor(
    trustedTexts: readonly string[],
    isSink: (toolName: string) => boolean,
    namesOf: NamesOf = (toolName) => [toolName],
  ) {
    this.#people = trustedTexts.map((text) => new TrackedText(text));
    this.#isSink = isSink;
    this.#namesOf = namesOf;
  }

  /** In the order of the conversation. */
  add(message: Message): void {
    switch (message.role) {
      case 'user':
        this.#raise(message.sensitivity);
        if (message.flow) this.addLabelled(message.content, message.flow);
        else this.#people.push(trackedFor(message, message.content));
        for (const file of message.files ?? []) this.#addFile(file);
        return;
      case 'tool':
        this.#addResult(message);
        return;
      case 'assistant':
        if (message.flow) this.addLabelled(textOf(message), message.flow);
        for (const call of toolCallsOf(message)) this.#addCall(call.name, call.args, call);
        return;
      case 'system':
    }
  }

  /**
   * What a script of this run has read. `args`: what the script called the tool with, as JSON; without them a trusted result
   * vouches for nothing once untrusted text has been read, since it may repeat it.
   */
  addRead(text: string, source: FlowSource, sensitivity: Sensitivity, args?: string): void {
    this.#raise(sensitivity);
    const names = [source.name, ...this.#namesOf(source.name)];
    if (args !== undefined) this.#addWritten(new TrackedText(args));
    const tracked = new TrackedText(text);
    if (isUntrusted(source.trust)) this.#addUntrusted(tracked, [source]);
    else if (args !== undefined || this.#untrusted.length === 0) this.#trusted.push(this.#vouching(tracked));
    this.#addOrigin(tracked, names);
  }

  /**
   * What a model wrote after it had read what the label names. Its parts count as untrusted, all of it where the label has no
   * parts. The rest vouches for nothing, and is no finding by itself. With no sources the whole text is such a rest.
   */
  addLabelled(text: string, label: FlowLabel): void {
    const { sources, sensitivity, parts } = label;
    this.#raise(sensitivity);
    this.#addUntrusted(trackedFor(label, parts ? parts.join('\n') : text), sources);
  }

  /**
   * What a server says of its tools, as the model is shown it: what it names is untrusted, and yet the run has read nothing of
   * strangers by that. `prefix`: with what the names of its tools begin.
   */
  addDescription(tracked: TrackedText, source: FlowSource, prefix: string): void {
    this.#untrusted.push({ tracked, source, sentBefore: 0, describes: prefix });
  }

  /** For a call of the tool with these names: what its own server says of its tools is no stranger's there. */
  judging(names: readonly string[]): JudgedMemory {
    const isOwn = ({ describes }: UntrustedText) =>
      describes !== undefined && names.some((name) => name.startsWith(describes));
    if (!this.#untrusted.some(isOwn)) return this;
    return {
      seen: this.seen,
      untrusted: this.#untrusted.filter((text) => !isOwn(text)),
      sent: this.sent,
      vouching: this.vouching,
      vouchesFor: (value) => this.vouchesFor(value),
      vouchesForPassage: (plain) => this.vouchesForPassage(plain),
      isFrom: (value, origin) => this.isFrom(value, origin),
    };
  }

  get seen(): { readonly sources: readonly FlowSource[]; readonly sensitivity: Sensitivity } {
    return { sources: [...this.#sources.values()], sensitivity: this.#sensitivity };
  }

  get untrusted(): readonly UntrustedText[] {
    return this.#untrusted;
  }

  /** Calls of sinks, in their order. */
  get sent(): readonly SentCall[] {
    return this.#sent;
  }

  /** Did a person, the author or a trusted tool give this very value? */
  vouchesFor(value: Value): boolean {
    if (this.#people.some((text) => vouches(text, value))) return true;
    return this.#trusted.some((text) => vouches(text.tracked, value) && !this.#isEcho(text, value));
  }

  /** Does a passage, as letters and digits, stand as a whole in what a person, the author or a trusted tool wrote? */
  vouchesForPassage(plain: string): boolean {
    if (this.#people.some((text) => text.plain.includes(plain))) return true;
    return this.#trusted.some((text) => text.tracked.plain.includes(plain) && !this.#isEchoOfPassage(text, plain));
  }

  /** Every text that can vouch for a passage, or for a piece of one. */
  get vouching(): readonly TrackedText[] {
    return [...this.#people, ...this.#trusted.map(({ tracked }) => tracked)];
  }

  /** Does the value stand in what this origin gave? Whether that is trusted does not count. */
  isFrom(value: Value, origin: Origin): boolean {
    if (origin.kind === 'user') return this.#people.some((text) => vouches(text, value));
    const results = this.#results.get(origin.name) ?? [];
    return results.some((text) => vouches(text.tracked, value) && !this.#isEcho(text, value));
  }

  /**
   * For a text that a model wrote after all this: what it carries, with the pieces that untrusted texts brought. Undefined:
   * nothing untrusted and nothing but public texts were read.
   */
  labelOf(text: string): FlowLabel | undefined {
    const { sources, sensitivity } = this.seen;
    if (sources.length === 0 && sensitivity === 'public') return undefined;
    return { sources: [...sources], sensitivity, parts: labelledParts(text, this) };
  }

  /** What stands in a picture or a PDF is not known here, so anything may. Of the user's own such file nothing is known, either. */
  #addFile(file: InputFile): void {
    const source = sourceOfFile(file);
    const found = foundOf(file);
    const text = found?.kind === 'text' ? found.text : undefined;
    if (source) this.#addUntrusted(text === undefined ? opaqueText : trackedFor(file, text), [source]);
    else if (text !== undefined) this.#people.push(trackedFor(file, text));
  }

  #addResult(message: ToolMessage): void {
    const { toolName, trust, content, flow, sensitivity, isError } = message;
    this.#raise(sensitivity);
    const tracked = trackedFor(message, content);
    const known = trustClass.safeParse(trust ?? 'user-defined');
    const names = this.#namesOf(toolName, known.data);
    const name = this.#namesOf(toolName)[0] ?? toolName;
    // What the label names is all that is untrusted in it. A class that this version does not know is one of strangers.
    if (flow && flow.sources.length > 0) this.addLabelled(content, flow);
    else if (!known.success || isUntrusted(known.data))
      this.#addUntrusted(tracked, [{ name: clip(name, maxNameChars), trust: known.data ?? 'external' }]);
    else if (flow) this.addLabelled(content, flow);
    // It may repeat the call, the name of a tool that there is not included.
    else if (isError) return;
    else if (toolName === asksPeople) this.#people.push(tracked);
    else this.#trusted.push(this.#vouching(tracked));
    this.#addOrigin(tracked, names);
  }

  #addCall(toolName: string, text: string, key: object): void {
    this.#addWritten(trackedFor(key, text));
    if (!this.#isSink(toolName)) return;
    this.#sent.push({ names: [toolName, ...this.#namesOf(toolName)], text, args: jsonOr(text) });
  }

  /** Before anything untrusted was read, a model's words are made of nothing untrusted. */
  #addWritten(args: TrackedText): void {
    if (this.#sources.size > 0 || this.#untrusted.length > 0) this.#written.push(args);
  }

  #addOrigin(tracked: TrackedText, names: readonly string[]): void {
    for (const name of new Set(names)) {
      const results = this.#results.get(name) ?? [];
      results.push(this.#vouching(tracked));
      this.#results.set(name, results);
    }
  }

  #vouching(tracked: TrackedText): TrustedText {
    return { tracked, writtenBefore: this.#written.length };
  }

  /** Did the model write the value, or every word of it, in calls before? */
  #isEcho({ writtenBefore }: TrustedText, value: Value): boolean {
    const written = this.#written.slice(0, writtenBefore);
    const isWritten = (one: Value) => written.some((text) => brings(text, one));
    if (isWritten(value)) return true;
    // The parts of a date or a number stand anywhere.
    if (!/\p{L}/u.test(value.text)) return false;
    const words = value.text.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== '');
    return words.length > 1 && words.every((word) => isWritten({ text: word, kind: 'whole' }));
  }

  /** Did the model write the passage, in one call or in pieces that calls before have between them? */
  #isEchoOfPassage({ writtenBefore }: TrustedText, plain: string): boolean {
    const written = this.#written.slice(0, writtenBefore);
    if (written.some((text) => text.plain.includes(plain))) return true;
    const needle = new Needle(unitsOf(plain));
    const isCovered = new Uint8Array(plain.length);
    for (const span of written.flatMap((text) => needle.spansIn(text.form.units)))
      isCovered.fill(1, span.end - (span.to - span.from), span.end);
    return isCovered.includes(1) && isCovered.filter((one) => one === 0).length < minPiece;
  }

  #addUntrusted(tracked: TrackedText, sources: readonly FlowSource[]): void {
    const [source] = sources;
    if (!source) return;
    for (const one of sources) this.#see(one);
    if (tracked.text !== '' || tracked.isOpaque)
      this.#untrusted.push({ tracked, source, sentBefore: this.#sent.length });
  }

  #see(source: FlowSource): void {
    if (this.#sources.size < maxFlowSources) this.#sources.set(`${source.trust} ${source.name}`, source);
  }

  #raise(to: Sensitivity | undefined): void {
    const order = sensitivityLabel.options;
    if (to && order.indexOf(to) > order.indexOf(this.#sensitivity)) this.#sensitivity = to;
  }
}
