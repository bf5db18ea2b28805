import { Empty } from '../../ui/states.tsx';

export function RunsView() {
  return <Empty title="This view is being built." />;
}
