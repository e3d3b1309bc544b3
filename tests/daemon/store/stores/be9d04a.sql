BEGIN TRANSACTION;
CREATE TABLE comparisons (
	number INTEGER NOT NULL, 
	job INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
CREATE TABLE executors (
	task_id TEXT NOT NULL, 
	job INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	launched_at DOUBLE NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (task_id), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
INSERT INTO "executors" VALUES('job-1.0',1,'killed',1.79532484393690586091e+09,'{"task_id":"job-1.0","job_id":"job-1","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"cpus":1.0,"memory_mib":1024,"ports":[20200],"launched_at":1795324843.9369059,"state":"killed","running_at":1795324843.9648468,"ended_at":1795324844.0640643,"message":"ended with its job","cost":8.477226893107096e-06,"accrued_until":1795324844.0640643,"killed_at":1795324844.0569177,"replaced":false,"resources":{}}#15b3cbc4');
INSERT INTO "executors" VALUES('job-2.0',2,'running',1.79532484419660019877e+09,'{"task_id":"job-2.0","job_id":"job-2","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"cpus":1.0,"memory_mib":1024,"ports":[20200],"launched_at":1795324844.1966002,"state":"running","running_at":1795324844.2211971,"ended_at":null,"message":"","cost":4.245034853617351e-06,"accrued_until":1795324844.3239512,"killed_at":null,"replaced":false,"resources":{}}#7c5017d5');
INSERT INTO "executors" VALUES('job-2.1',2,'running',1.79532484419660019877e+09,'{"task_id":"job-2.1","job_id":"job-2","number":1,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"cpus":1.0,"memory_mib":1024,"ports":[20201],"launched_at":1795324844.1966002,"state":"running","running_at":1795324844.2275362,"ended_at":null,"message":"","cost":4.245034853617351e-06,"accrued_until":1795324844.3239512,"killed_at":null,"replaced":false,"resources":{}}#8e0d7ae9');
INSERT INTO "executors" VALUES('job-3.0',3,'running',1.79532484432395124437e+09,'{"task_id":"job-3.0","job_id":"job-3","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"cpus":1.0,"memory_mib":1024,"ports":[20202],"launched_at":1795324844.3239512,"state":"running","running_at":1795324844.3677235,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795324844.3239512,"killed_at":null,"replaced":false,"resources":{}}#5b51bbee');
INSERT INTO "executors" VALUES('job-3.1',3,'running',1.79532484432395124437e+09,'{"task_id":"job-3.1","job_id":"job-3","number":1,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"cpus":1.0,"memory_mib":1024,"ports":[20203],"launched_at":1795324844.3239512,"state":"running","running_at":1795324844.3677495,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795324844.3239512,"killed_at":null,"replaced":false,"resources":{}}#0fee7274');
INSERT INTO "executors" VALUES('job-3.driver-2',3,'running',1.79532484432395124437e+09,'{"task_id":"job-3.driver-2","job_id":"job-3","number":null,"vm_id":"00000000-0000-4000-8000-000000000000-S1","vm_name":"vm-2","vm_type":"m1.large","address":"127.0.8.2","price_per_hour":0.24,"cpus":1.0,"memory_mib":1024,"ports":[20400,20401,20402],"launched_at":1795324844.3239512,"state":"running","running_at":1795324844.368784,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795324844.3239512,"killed_at":null,"replaced":false,"resources":{}}#20524f7b');
CREATE TABLE explanations (
	number INTEGER NOT NULL, 
	job INTEGER NOT NULL, 
	decision TEXT NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
INSERT INTO "explanations" VALUES(1,1,'place',X'7801B5924D4EC3301085AF32F23A544D13DA923BB06583AAC875C6C4607722FFB45451EECE38848AEED8B0F31B8DDFBCF9EC51C8289A72F7F4586DEA7D5DAD9EAA6DB5DEED0AF14EC7D674A2C98787521462206BD4950B5AB3EA509960E8C47AB05221973CCA30174A200D25E027AA14C907983BBA06CE6E76D232D91844F37A2884EAC928CC62143F1744B32EC4D9B1F572E1D2E7B9598009107B046D7C88F0F20C17137BF0440E34793091732879EA4C27E3E2FADB285E07642757AEACF46F39B4F688AD1A1227A8573C76D60E1DF96BEBCC91D96CAB7D5D08DEF163891C14797639256BE7FC019942F4093395288DE5BE715AAC3C064A7EDE709CA662BCEDB5E1E1FF17474B1BFE90273FC08D566B51C796127F0806F1CDA4CC4CEE70AC374CE37EABC3F405FC60BCD0');
INSERT INTO "explanations" VALUES(2,2,'place',X'7801ED52CB4EC33010FC15CB67B76A1E0D6DFE812B175445AEB32606BB8EFC68A9A2FC3BEB100A881EB8202EBD4499D5EEECEC8C07CA03ADB3BBEDBAC8CB4D592EB36D95ADF28AD167BB6F544BEBF4B3C829A3BDD54A9CB12025A21684F2CA1E10F79A0BC09203EEA7424EAC24398157103158E7C9D4D1D6E46816199BBED82E79D4C1D3FA71C7A8E8AC1290C0403FC668BD62F46870411AC3815397B627409427A1032295F3813CDC93930A1D71D61A22AD232A60B7E08756B53CCCAC5F89C2B9076432D95273F794A44B07D0883EA28272896B276CC058776E8CDAA34355B12919C54B5F66C95E58872C87A8F5A4DF037A115C84E44DE04A63DF30CE540EBC8D6EBA701847365CEE4AC6FE9D1CC9B5FF859E14C0C5AD46830C8D8DF82CD088774FB2E4C9373B5639BAF1E3AACFE8B2FF88AEB81EDDBAA850FE2DBAF9255F896E37BE0153A350A3');
INSERT INTO "explanations" VALUES(3,3,'place',X'7801E552CB4EC33010FC15CB67B76AECD096FC03572EA88A5C674D0C4E1DF9D15245F977D6A1145011E5C6814BE459EDEECCCE64A032D2AA58DDDE085EAECB722EB8E0ABF58AD127B7AD4D43ABFC9809CA68EFAC51472C688DA8016582713BC4BD950AB0E44186A9C089D38413780195A2F3814C1D4D45F6DDAC60D317DBB54C36065A3D6C1855AD330A3218E8FB18AD168CEE3B24C863387068337B06C404125B20DAF810C9FD1D3998D812EF5C47B4F3C444EC5672D79846C6D3D6CF8BE2B107DCD415732BFD6396AE3D40ADFA840AF81C6927DC41E7FCB1EECC161D2A8558328A973E9F2407E53C6ED9256B27FD01D08BE813646FA23416FB86F1B4CA4370C94F170EE3C886F35D1CC97F94537E2F6729D6E575395ADAF00B3D3980B35BB5051D6B97F0B74023DE3C29B2882F762C38D25F5CF5115DF117D14D322FA313A2E0D7BDFACFD16DC65756A6509D');
INSERT INTO "explanations" VALUES(4,4,'wait',X'7801B592C16EC32010447F057126918D4993BAB7DE73EDA58A2C829786169B0870D3C8F2BF77C149954A957A694F66566867E6E191CA48EB727DBFAAB8D808B11455B55E8935A3AF6EDF9896D6E9B01094D1A3B3469D71A035AA169409C6F5A84FD2449C7890216BEF5C47B4F3A4204E9392C007A8213A1F9214441D874064DF92B2E0826CCDE3439A73F2B40D0C3F56AAB77C07576A39D81868FDBC63541D9C5190C448AF1B69DD0FD632FADE5D4FA7434AF87709140635AD8C17E364846E8B12C3C5F3115075E5D24AFF0229AE0768523D5A17CBE2A23BE89C3F379DD92367CE371B4653C554246F2207199054A692163044D403B4D0526C1D94F3E832D744040190B89636407A82288DC545E374F1F210DCE033A5719AD898C12417FE5BDEEAE7BCABEA0E7BDCE6E5396FF51F79D3237FE16E2CE8D8B801FF4E4C30439D29DC029D27DF6BEFA64FACB7E9E4');
CREATE TABLE facts (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "facts" VALUES('schema','3');
INSERT INTO "facts" VALUES('made_at','');
INSERT INTO "facts" VALUES('term','1');
INSERT INTO "facts" VALUES('lease','');
INSERT INTO "facts" VALUES('leader','http://127.0.0.1:4992');
INSERT INTO "facts" VALUES('clock','{"boot": "53542483-8751-4eb7-a81f-d1f3acd98660", "offset": 1795306048.830639}');
INSERT INTO "facts" VALUES('framework_id','00000000-0000-4000-8000-000000000000-0000');
INSERT INTO "facts" VALUES('probe','284adcfab50d27ca');
CREATE TABLE jobs (
	number INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	cost DOUBLE NOT NULL, 
	record TEXT NOT NULL, 
	spec TEXT, 
	accepted_at DOUBLE, 
	idempotency_key TEXT, 
	finished_at DOUBLE, 
	size INTEGER, 
	PRIMARY KEY (number), 
	UNIQUE (idempotency_key)
);
INSERT INTO "jobs" VALUES(1,'killed',8.47722689310709625817e-06,'{"job":{"id":"job-1","type":"unknown","cpus":1.0,"memory_mib":1024,"executors":1,"submitted_at":1795324843.928737,"name":"over","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"resources":{}},"state":"killed","reason":"killed on request","placed_at":1795324843.9369059,"started_at":1795324843.9648468,"finished_at":1795324844.0569177,"exit_code":null,"next_executor":1,"losses":0,"failures":0,"cost":8.477226893107096e-06,"driver_on":"22a513916cab6882@recorded","aborting":false}#696cbb68','{"app":"/apps/sort.py","name":"over","type":"unknown","executors":1,"min_executors":null,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"conf":{},"env":{},"driver":null,"max_runtime":null}#37aba2b8',1.79532484392873692511e+09,'over',1.79532484405691766739e+09,NULL);
INSERT INTO "jobs" VALUES(2,'running',8.49006970723470155183e-06,'{"job":{"id":"job-2","type":"sort","cpus":1.0,"memory_mib":1024,"executors":2,"submitted_at":1795324844.1844296,"name":"here","expected_duration":1011.6666666666666,"prefers":"spread","driver":null,"min_executors":null,"max_runtime":null,"resources":{}},"state":"running","reason":"its driver runs","placed_at":1795324844.1966002,"started_at":1795324844.2275362,"finished_at":null,"exit_code":null,"next_executor":2,"losses":0,"failures":0,"cost":8.490069707234702e-06,"driver_on":"22a513916cab6882@recorded","aborting":false}#f657337c','{"app":"/apps/sort.py","name":"here","type":"sort","executors":2,"min_executors":null,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"conf":{},"env":{},"driver":null,"max_runtime":null}#ae338adc',1.79532484418442964558e+09,'here',NULL,NULL);
INSERT INTO "jobs" VALUES(3,'running',0.0,'{"job":{"id":"job-3","type":"unknown","cpus":1.0,"memory_mib":1024,"executors":2,"submitted_at":1795324844.3145084,"name":"there","expected_duration":null,"prefers":null,"driver":{"cpus":1.0,"memory_mib":1024},"min_executors":1,"max_runtime":null,"resources":{}},"state":"running","reason":"all its executors run","placed_at":1795324844.3239512,"started_at":1795324844.3677495,"finished_at":null,"exit_code":null,"next_executor":3,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false}#2a8fd8ac','{"app":"/apps/sort.py","name":"there","type":"unknown","executors":2,"min_executors":1,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"conf":{},"env":{},"driver":{"on":"cluster","cpus":1.0,"memory":1024},"max_runtime":null}#b8eba390',1.79532484431450843815e+09,'there',NULL,NULL);
INSERT INTO "jobs" VALUES(4,'queued',0.0,'{"job":{"id":"job-4","type":"unknown","cpus":4.0,"memory_mib":1024,"executors":1,"submitted_at":1795324844.4283156,"name":"large","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"resources":{}},"state":"queued","reason":"room for 0 of 1 executors of 4 cpus and 1024 MiB; of 2 VMs, 2 lack cpus","placed_at":null,"started_at":null,"finished_at":null,"exit_code":null,"next_executor":0,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false}#8a690b11','{"app":"/apps/sort.py","name":"large","type":"unknown","executors":1,"min_executors":null,"cpus":4.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"conf":{},"env":{},"driver":null,"max_runtime":null}#ff3ff978',1.79532484442831563944e+09,'large',NULL,NULL);
INSERT INTO "jobs" VALUES(5,'queued',0.0,'{"job":{"id":"job-5","type":"unknown","cpus":0.5,"memory_mib":1024,"executors":1,"submitted_at":1795324844.4321969,"name":"small","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"resources":{}},"state":"queued","reason":"waits for its turn","placed_at":null,"started_at":null,"finished_at":null,"exit_code":null,"next_executor":0,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false}#e439bace','{"app":"/apps/sort.py","name":"small","type":"unknown","executors":1,"min_executors":null,"cpus":0.5,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"conf":{},"env":{},"driver":null,"max_runtime":null}#a8d8962c',1.79532484443219685554e+09,'small',NULL,NULL);
CREATE TABLE quarantine (
	number INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	body BLOB NOT NULL, 
	why TEXT NOT NULL, 
	found_at DOUBLE NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE sums (
	name TEXT NOT NULL, 
	state TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	cost DOUBLE NOT NULL, 
	size INTEGER NOT NULL, 
	PRIMARY KEY (name, state)
);
INSERT INTO "sums" VALUES('jobs','queued',2,0.0,0);
INSERT INTO "sums" VALUES('jobs','placing',0,0.0,0);
INSERT INTO "sums" VALUES('executors','launching',0,0.0,0);
INSERT INTO "sums" VALUES('jobs','starting',0,0.0,0);
INSERT INTO "sums" VALUES('executors','starting',0,0.0,0);
INSERT INTO "sums" VALUES('jobs','running',2,8.49006970723470155183e-06,0);
INSERT INTO "sums" VALUES('executors','running',5,0.0,0);
INSERT INTO "sums" VALUES('jobs','killed',1,8.47722689310709625817e-06,0);
INSERT INTO "sums" VALUES('executors','killed',1,0.0,0);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_unmeasured ON jobs (finished_at) WHERE finished_at IS NOT NULL AND size IS NULL;
CREATE INDEX jobs_over ON jobs (finished_at, number) WHERE finished_at IS NOT NULL;
CREATE INDEX ix_executors_job ON executors (job);
CREATE INDEX ix_executors_state ON executors (state);
CREATE INDEX explanations_by_job ON explanations (job, decision);
CREATE INDEX comparisons_by_job ON comparisons (job);
CREATE TRIGGER jobs_added AFTER INSERT ON jobs BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END;
CREATE TRIGGER jobs_changed AFTER UPDATE OF state, cost, size ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END;
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('pruned', old.state, 1,
        CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END, coalesce(old.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('highest', '', old.number, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = max(number, excluded.number);
    END;
CREATE TRIGGER executors_added AFTER INSERT ON executors BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END;
CREATE TRIGGER executors_changed AFTER UPDATE OF state ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END;
CREATE TRIGGER executors_deleted AFTER DELETE ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    END;
COMMIT;
