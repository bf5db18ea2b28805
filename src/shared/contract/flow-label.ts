import { isUntrusted, lessTrusted, trustClass, type TrustClass } from './agent/trust.ts';
import type { ChildEnd } from './control.ts';
import type { InputFile } from './input-parts.ts';
import { unionOf, type FlowLabel, type FlowSource, type Message, type Origins } from './message.ts';

/** The label of a text that must have one and has none, because an older worker wrote it: all of it counts as a stranger's. */
export const unlabelled: FlowLabel = { sources: [{ name: 'unknown', trust: 'external' }] };

/** The label of a text whose author has read nothing untrusted, and nothing but public. */
export const clean: FlowLabel = { sources: [] };

/**
 * Of a child's answer, or of the reason why there is none. One that ended without a label and had begun was on a worker that knew
 * none; nothing is quoted of a run that was stopped, or had not begun.
 */
export function labelOfEnd({ flow, steps, status }: Pick<ChildEnd, 'flow' | 'steps' | 'status'>): FlowLabel {
  return flow ?? (steps === 0 || status === 'cancelled' ? clean : unlabelled);
}

/** Who speaks in a file of an input. Undefined: the user does, as the agent says. */
export function sourceOfFile({ name, trust }: Pick<InputFile, 'name' | 'trust'>): FlowSource | undefined {
  return trust === 'user' ? undefined : { name: `file:${name}`, trust: 'external' };
}

/** What one message brings that is untrusted, or not public. Undefined: nothing. */
function originsOf(message: Message): Origins | undefined {
  switch (message.role) {
    case 'tool': {
      const { toolName: name, flow, sensitivity } = message;
      const trust = classOf(message.trust);
      const own = isUntrusted(trust) && !flow?.sources.length ? [{ name, trust }] : [];
      return unionOf([{ sources: own, sensitivity }, flow]);
    }
    case 'user':
      return unionOf([
        {
          sensitivity: message.sensitivity,
          sources: (message.files ?? []).flatMap((file) => sourceOfFile(file) ?? []),
        },
        message.flow,
      ]);
    case 'assistant':
      return unionOf([message.flow]);
    default:
      return undefined;
  }
}

/** The class of a result: where it has none, that of the operator's own tools. One that is not known here is untrusted. */
export function classOf(trust: string | undefined): TrustClass {
  return trust === undefined ? 'user-defined' : (trustClass.safeParse(trust).data ?? 'external');
}

/** What the reader of all these messages has read that is untrusted, or not public. Undefined: nothing. */
export function originsOfAll(messages: readonly Message[]): Origins | undefined {
  return unionOf(messages.map(originsOf));
}

/** The least trusted class of these origins. Undefined: nothing untrusted. */
export function leastTrusted({ sources }: Origins): TrustClass | undefined {
  return sources.reduce<TrustClass | undefined>((worst, { trust }) => lessTrusted(trust, worst), undefined);
}
