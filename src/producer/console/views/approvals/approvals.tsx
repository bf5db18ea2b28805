import { Empty } from '../../ui/states.tsx';

export function ApprovalsView() {
  return <Empty title="This view is being built." />;
}
