/** What a model is told about an answer that was refused. */
export function repairRequest(problem: string): string {
  return `Your answer was refused: ${problem}. Answer again, with nothing but JSON of the shape that was asked for.`;
}
