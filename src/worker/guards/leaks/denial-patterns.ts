import { clip } from '../../../shared/base/text.ts';
import { fold } from '../folded-text.ts';
import { compiled, type InjectionEntry, type InjectionPattern } from '../injection-patterns.ts';

/**
 * Wording that reports a denial: that something was refused, to whom a right is missing, that a rule or a person said no. In the
 * language of `injectionEntries`. Everything else that a denied agent may say is none of it: an answer "I have no data" passes.
 */
export const denialEntries: readonly InjectionEntry[] = [
  {
    name: 'own_words',
    reason: 'How this system itself reports a denial to a model, and how others name theirs.',
    words: [
      'it was (not approved|denied)',
      'the call of tool .. was denied',
      'secret .. is not for this tool',
      'no person can be asked here',
    ],
    signs: [
      '(?<![a-z_])(?:approval_denied|capability_blocked|dataflow_policy_blocked|sandbox_violation|tool_denied|policy_denied)(?![a-z_])',
      '(?<![a-z])(?:secretaccessdenied|toolapprovaldenied|handoffpermissiondenied|sandboxviolation)(?![a-z])',
      '(?<![0-9])(?:401|403)[ :-]{1,3}(?:unauthorized|forbidden)',
    ],
  },
  {
    name: 'denied',
    reason: 'Something was refused.',
    words: [
      '(access|permission|approval|request|call|authorization|authorisation|clearance) + (denied|refused|rejected|withheld|revoked|blocked|forbidden)',
      '(access|permission|approval|authorization|authorisation) (was |is |has been )?(not granted|not given|never granted)',
      '(denied|refused|rejected|blocked|forbidden|prohibited|declined|vetoed) .. (policy|policies|rule~|guard~|admin~|operator~|security|approver~|reviewer~|sandbox|firewall)',
      '(policy|policies|rule~|guard~|admin~|operator~|approver~|reviewer~) .. (denied|refused|rejected|blocked|forbade|forbids|forbid|prohibit~|declined|vetoed)',
      '(denied|refused|forbidden|not allowed|blocked) (me |us )?(access|permission|from)',
    ],
  },
  {
    name: 'no_right',
    reason: 'A right is missing.',
    words: [
      '(not|never|no longer) (allowed|permitted|authorized|authorised|cleared|entitled) to',
      '(unauthorized|unauthorised|not authorized|not authorised|not approved)',
      '(lack~|without|missing|insufficient|not have|no|needs|requires) + (permission~|authorization|authorisation|privilege~|clearance|access rights)',
      "(cannot|can not|can't|could not|couldn't|not able to|unable to|may not|must not) (access|read|see|open|reveal|share|disclose|retrieve) .. (secret~|credential~|password~|token|tokens|key|keys|confidential|restricted|protected|classified)",
      '(secret~|credential~|password~|token|api key) + (not available|not accessible|inaccessible|off limits|denied|refused|blocked|withheld|not allowed)',
    ],
  },
  {
    name: 'denied',
    reason: 'The same in German, French, Spanish, Italian, Portuguese and Dutch.',
    words: [
      '(zugriff|zugang|berechtigung|freigabe|genehmigung|anfrage|aufruf|erlaubnis) .. (verweigert|abgelehnt|verwehrt|nicht erteilt|nicht gewahrt|gesperrt|blockiert|entzogen)',
      '(nicht|keine) (erlaubt|gestattet|berechtigt|befugt|genehmigt|freigegeben|autorisiert|berechtigung~|befugnis~|erlaubnis|freigabe|genehmigung|zugriffsrecht~)',
      '(regel~|richtlinie~|vorgabe~|freigeber~|administrator~) .. (verbietet|verboten|verweigert|abgelehnt|untersagt|blockiert)',
      "(acces|autorisation|permission|demande|appel|approbation) + (refuse~|interdit~|rejete~|bloque~|n'a pas ete accord~)",
      '(pas|non) (autorise~|permis|habilite~|approuve~)',
      '(regle|politique|strategie) .. (interdit|refuse|bloque|a refuse)',
      '(acceso|permiso|autorizacion|solicitud|llamada|aprobacion) .. (denegad~|rechazad~|negad~|bloquead~|prohibid~|no concedid~)',
      '(no) (autorizad~|permitid~|aprobad~|tengo permiso~|tiene permiso~|tengo acceso|tiene acceso)',
      '(accesso|permesso|autorizzazione|richiesta|chiamata|approvazione) .. (negat~|rifiutat~|respint~|bloccat~|vietat~|non concess~)',
      '(non) (autorizzat~|consentit~|permess~|approvat~|ho il permesso|ha il permesso)',
      '(acesso|permissao|autorizacao|pedido|solicitacao|chamada|aprovacao) .. (negad~|recusad~|rejeitad~|bloquead~|proibid~|nao concedid~)',
      '(nao) (autorizad~|permitid~|aprovad~|tenho permissao|tem permissao)',
      '(toegang|toestemming|verzoek|aanroep|goedkeuring|machtiging) .. (geweigerd|afgewezen|ontzegd|geblokkeerd|verboden|niet verleend)',
      '(niet|geen) (toegestaan|bevoegd|gemachtigd|goedgekeurd|toestemming|toegangsrecht~)',
    ],
  },
  {
    name: 'denied',
    reason: 'The same in Russian, Ukrainian, Polish, Turkish, Arabic and Hindi.',
    words: [
      '(доступ~|разрешени~|запрос~|вызов~|одобрени~) .. (запрещ~|отказан~|отклон~|заблокир~|не предоставл~|не дан~)',
      '(в доступе отказано|нет прав|нет доступа|не разрешено|не одобрено|недостаточно прав|отказано в доступе)',
      '(доступ~|дозв~|запит~) .. (заборон~|відмовл~|відхил~|заблоков~)',
      '(dostep~|zgod~|uprawnien~|zadani~) .. (odmow~|zabron~|odrzucon~|zablokow~|nie udzielon~)',
      '(odmowa dostepu|brak uprawnien|brak zgody|nie zezwolono|nie zatwierdzono)',
      '(erisim~|izin~|istek~|onay~|yetki~) .. (reddedil~|engellen~|verilmedi|yasak~)',
      '(yetkim yok|yetkisiz|izin verilmedi|onaylanmadi)',
      '(الوصول|الاذن|الطلب|الموافقه|الصلاحيه) .. (مرفوض~|ممنوع~|رفض~|محظور~)',
      '(تم رفض|غير مصرح|غير مسموح|لا صلاحيه|ليس لدي صلاحيه)',
      '(अनुमति|पहुच|पहुँच|अनुरोध) .. (अस्वीक~|मना|नही मिली|अवरुद्ध)',
    ],
  },
  {
    name: 'denied',
    reason: 'The same in Japanese, Chinese and Korean.',
    letters: [
      '(アクセス|権限|許可|承認|要求|呼び出し) .. (拒否|却下|否認|ありません|されていません|されませんでした|禁止|ブロック)',
      '(访问|訪問|存取|权限|權限|许可|許可|请求|請求|批准|调用|呼叫) .. (被拒|拒绝|拒絕|禁止|被阻止|被驳回|未获|不足|驳回)',
      '(没有权限|沒有權限|未经授权|未經授權|不允许|不允許|未被批准)',
      '(접근|권한|허가|승인|요청|호출) .. (거부|거절|차단|금지|없습니다|반려)',
    ],
  },
];

let all: readonly InjectionPattern[] | undefined;

function patterns(): readonly InjectionPattern[] {
  return (all ??= denialEntries.flatMap(compiled));
}

/** Read at once, with so much of what came before that no wording is cut in two. */
const windowChars = 131_072;
const overlapChars = 512;

/** Does the text report a denial, in the built-in wording or in one of these phrases? Reads all of it. Linear in its length. */
export function reportsDenial(text: string, phrases: readonly string[]): boolean {
  const sought = phrases.map((phrase) => spaced(fold(phrase).text));
  for (let from = 0; from < text.length; from += windowChars - overlapChars) {
    const folded = fold(clip(text.slice(from), windowChars)).text;
    if (patterns().some(({ expression }) => folded.search(expression) !== -1)) return true;
    const line = spaced(folded);
    if (sought.some((phrase) => hasPhrase(line, phrase))) return true;
    if (from + windowChars >= text.length) return false;
  }
  return false;
}

function spaced(text: string): string {
  return text.replaceAll('\n', ' ').trim();
}

const inWord = /[\p{L}\p{M}\p{N}]/u;

/** Does the phrase stand there by itself, and not as a part of a longer word? */
function hasPhrase(line: string, phrase: string): boolean {
  if (phrase === '') return false;
  const isWord = (character: string) => inWord.test(character);
  const [begins, ends] = [isWord(phrase.charAt(0)), isWord(phrase.at(-1) ?? '')];
  for (let at = line.indexOf(phrase); at !== -1; at = line.indexOf(phrase, at + 1)) {
    const before = begins && isWord(line.charAt(at - 1));
    const behind = ends && isWord(line.charAt(at + phrase.length));
    if (!before && !behind) return true;
  }
  return false;
}
