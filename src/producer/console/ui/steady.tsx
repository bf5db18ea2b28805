/** A name that becomes bold when it is the current one, and takes the room for that from the beginning. */
export function Steady({ text }: { text: string }) {
  return (
    <span class="steady" data-text={text}>
      {text}
    </span>
  );
}
