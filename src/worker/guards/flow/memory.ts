import { isUntrusted, trustClass } from '../../../shared/contract/agent/trust.ts';
import {
  maxFlowSources,
  sensitivity as sensitivityLabel,
  toolCallsOf,
  type FlowLabel,
  type FlowSource,
  type Message,
  type Sensitivity,
  type ToolMessage,
} from '../../../shared/contract/message.ts';
import { normalise } from './normalise.ts';

/** A text that strangers may have written, and who brought it. */
export interface UntrustedText {
  readonly text: string;
  readonly source: FlowSource;
}

/** A text that vouches for what stands in it. */
export interface TrustedText {
  readonly text: string;
  /** Of a tool's result: the names by which rules mean the tool. Absent: a person's or the author's words. */
  readonly toolNames?: readonly string[];
}

/** Everything that a run has read and sent, by how far it is trusted. Only grows; the same messages make the same memory. */
export class FlowMemory {
  readonly #isSink: (toolName: string) => boolean;
  readonly #namesOf: (toolName: string) => readonly string[];
  readonly #untrusted: UntrustedText[] = [];
  readonly #trusted: TrustedText[];
  readonly #sent: string[] = [];
  readonly #sources = new Map<string, FlowSource>();
  #sensitivity: Sensitivity = 'public';

  /**
   * `trustedTexts`: the agent's instructions and whatever else its author wrote. `namesOf`: all names by which rules mean a
   * tool that a conversation calls so, the qualified one of a server's tool first.
   */
  constructor(
    trustedTexts: readonly string[],
    isSink: (toolName: string) => boolean,
    namesOf: (toolName: string) => readonly string[] = (toolName) => [toolName],
  ) {
    this.#trusted = trustedTexts.map((text) => ({ text }));
    this.#isSink = isSink;
    this.#namesOf = namesOf;
  }

  /** In the order of the conversation. */
  add(message: Message): void {
    switch (message.role) {
      case 'user':
        if (message.flow) this.addLabelled(message.content, message.flow);
        else this.#trusted.push({ text: message.content });
        this.#raise(message.sensitivity);
        return;
      case 'tool':
        this.#addResult(message);
        return;
      case 'assistant':
        for (const { name, args } of toolCallsOf(message)) if (this.#isSink(name)) this.#sent.push(args);
        return;
      default:
    }
  }

  /** What a script of this run has read. */
  addRead(text: string, source: FlowSource, sensitivity: Sensitivity): void {
    this.#raise(sensitivity);
    if (isUntrusted(source.trust)) this.#addUntrusted(text, [source]);
    else this.#trusted.push({ text, toolNames: this.#namesOf(source.name) });
  }

  /**
   * What a model wrote after it had read what the label names. Its parts count as untrusted, all of it where the label has no
   * parts; the rest neither as untrusted nor as trusted.
   */
  addLabelled(text: string, { sources, sensitivity, parts }: FlowLabel): void {
    this.#raise(sensitivity);
    if (sources.length === 0) return;
    for (const source of sources) this.#see(source);
    this.#addUntrusted(parts ? parts.join('\n') : text, sources);
  }

  get seen(): { readonly sources: readonly FlowSource[]; readonly sensitivity: Sensitivity } {
    return { sources: [...this.#sources.values()], sensitivity: this.#sensitivity };
  }

  get untrusted(): readonly UntrustedText[] {
    return this.#untrusted;
  }

  get trusted(): readonly TrustedText[] {
    return this.#trusted;
  }

  /** Arguments of the sinks that were called. */
  get sent(): readonly string[] {
    return this.#sent;
  }

  /** For a text that a model wrote after all this. Undefined: nothing untrusted and nothing but public texts were read. */
  labelOf(text: string): FlowLabel | undefined {
    const { sources, sensitivity } = this.seen;
    if (sources.length === 0 && sensitivity === 'public') return undefined;
    const label = { sources: sources.slice(0, maxFlowSources), sensitivity };
    if (sources.length === 0) return { ...label, parts: [] };
    const all = normalise(text);
    const isOwn = this.#trusted.some((one) => normalise(one.text).includes(all));
    return isOwn ? { ...label, parts: [] } : label;
  }

  #addResult({ toolName, trust, content, flow, sensitivity }: ToolMessage): void {
    this.#raise(sensitivity);
    const known = trustClass.safeParse(trust ?? 'user-defined');
    const name = this.#namesOf(toolName)[0] ?? toolName;
    // What the label names is all that is untrusted in it: the class is that of its sources.
    if (flow && flow.sources.length > 0) {
      this.addLabelled(content, flow);
    } else if (!known.success || isUntrusted(known.data)) {
      this.#addUntrusted(content, [{ name, trust: known.data ?? 'external' }]);
    } else if (flow) {
      this.addLabelled(content, flow);
    } else this.#trusted.push({ text: content, toolNames: [toolName, ...this.#namesOf(toolName)] });
  }

  #addUntrusted(text: string, sources: readonly FlowSource[]): void {
    for (const source of sources) this.#see(source);
    const [source] = sources;
    if (source && text !== '') this.#untrusted.push({ text, source });
  }

  #see(source: FlowSource): void {
    if (this.#sources.size < maxFlowSources) this.#sources.set(`${source.trust} ${source.name}`, source);
  }

  #raise(to: Sensitivity | undefined): void {
    const order = sensitivityLabel.options;
    if (to && order.indexOf(to) > order.indexOf(this.#sensitivity)) this.#sensitivity = to;
  }
}
