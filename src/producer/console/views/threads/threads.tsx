import { Empty } from '../../ui/states.tsx';

export function ThreadsView() {
  return <Empty title="This view is being built." />;
}
