import { Empty } from '../../ui/states.tsx';

export function AgentsView() {
  return <Empty title="This view is being built." />;
}
