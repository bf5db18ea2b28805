import { Empty } from '../../ui/states.tsx';

/** Only a producer has announced it. */
export function Unknown() {
  return (
    <Empty title="Its definition is not known.">
      <p>No worker that has loaded this agent has run here in the last seven days.</p>
    </Empty>
  );
}
