import { defined } from '../../shared/base/collections.ts';
import { assertNever } from '../../shared/base/errors.ts';
import { fileLabel, foundOf, type InputFile } from '../../shared/contract/input-parts.ts';
import type { Message, UserMessage } from '../../shared/contract/message.ts';

/**
 * The messages as models get them: the texts of text files, and notes for files that are gone, stand in the content, each at the place
 * of its file. Of the files only those are left whose bytes are sent. The same array when no message has files.
 */
export function withFiles(messages: readonly Message[]): readonly Message[] {
  if (!messages.some((message) => message.role === 'user' && message.files)) return messages;
  return messages.map((message) =>
    message.role === 'user' && message.files ? shown(message, message.files) : message,
  );
}

function shown(message: UserMessage, files: readonly InputFile[]): UserMessage {
  const sent: InputFile[] = [];
  let content = '';
  let from = 0;
  const addText = (text: string) => {
    if (text !== '')
      content += content === '' || content.endsWith('\n\n') || text.startsWith('\n\n') ? text : `\n\n${text}`;
  };
  for (const file of files.toSorted((a, b) => a.at - b.at)) {
    content += message.content.slice(from, file.at);
    from = file.at;
    const text = textFor(file);
    if (text === undefined) sent.push({ ...file, at: content.length });
    else addText(text);
  }
  addText(message.content.slice(from));
  return defined({ ...message, content, files: sent.length > 0 ? sent : undefined });
}

/** Undefined: its bytes are sent. */
function textFor(file: InputFile): string | undefined {
  const found = foundOf(file);
  if (!found) return undefined;
  switch (found.kind) {
    case 'text':
      return found.shown;
    case 'gone':
      return `[File ${fileLabel(file)}: file expired. It is past its time, or was removed, and cannot be read any more.]`;
    case 'unread':
      return `[File ${fileLabel(file)}: it was not fetched, and cannot be read.]`;
    default:
      return assertNever(found);
  }
}
