import type { TaskDefinition } from '../../shared/contract/orchestration/task-definition.ts';

/**
 * The task of this id, or undefined when there is none. Asked whenever a worker takes up a run that works on one; every
 * worker has to answer the same.
 */
export type LoadTask = (taskId: string) => TaskDefinition | undefined | Promise<TaskDefinition | undefined>;
