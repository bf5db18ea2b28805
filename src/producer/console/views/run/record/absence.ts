/** Why there is nothing to show under the id of a run, and what to do. */
export interface Absence {
  readonly title: string;
  readonly text: string;
}

export interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly details: unknown;
}

/** Undefined for errors that say nothing about whether the run is there. */
export function absenceOf({ status, code, details }: Refusal, tenant: string): Absence | undefined {
  if (status === 410) {
    return reasonIn(details) === 'erased'
      ? {
          title: 'This run was erased.',
          text: 'Nothing of it is kept. The receipt of the erasure and the audit log say when and by whom.',
        }
      : {
          title: 'This run is past its time.',
          text: 'It was there, and its record has been removed since. ARCHIVE_TTL_S says how long runs are kept.',
        };
  }
  if (code === 'invalid_id' || status === 400) {
    return {
      title: 'This is no id of a run.',
      text: 'An id has letters, digits, dots, dashes and colons, at most 128 of them.',
    };
  }
  if (status === 404) {
    return {
      title: 'There has never been such a run here.',
      text: `Check the id. You see the runs of the tenant ${tenant}: for one of another tenant log in with a key of that tenant.`,
    };
  }
  return undefined;
}

function reasonIn(details: unknown): unknown {
  return typeof details === 'object' && details !== null && 'reason' in details ? details.reason : undefined;
}
