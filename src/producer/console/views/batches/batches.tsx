import { Empty } from '../../ui/states.tsx';

export function BatchesView() {
  return <Empty title="This view is being built." />;
}
